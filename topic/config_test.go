package topic

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// kafkaNames are the topic configurations of Kafka 3.6 to 4.1, as LogConfig of each
// release defines them.
const kafkaNames = `cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
	delete.retention.ms file.delete.delay.ms flush.messages flush.ms follower.replication.throttled.replicas
	index.interval.bytes internal.segment.bytes leader.replication.throttled.replicas local.retention.bytes local.retention.ms
	max.compaction.lag.ms max.message.bytes message.downconversion.enable message.format.version
	message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.difference.max.ms
	message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate
	remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable retention.bytes retention.ms
	segment.bytes segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable`

func TestConfigKeysAreThoseOfKafka(t *testing.T) {
	var got []string
	for _, k := range ConfigKeys() {
		got = append(got, k.Name)
	}
	if want := strings.Fields(kafkaNames); !slices.Equal(got, want) {
		t.Errorf("configurations\n%v, want\n%v", got, want)
	}
}

// Every default is an allowed value, and Kafka's default.
func TestConfigDefaults(t *testing.T) {
	for _, k := range ConfigKeys() {
		if err := (Config{k.Name: k.Default}).Validate(); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
		if k.Doc == "" || k.Type == 0 {
			t.Errorf("%s has no description or type", k.Name)
		}
		if got := (Config{}).Get(k.Name); got != k.Default {
			t.Errorf("%s is %q, want the default %q", k.Name, got, k.Default)
		}
	}
	s, err := Config(nil).parse()
	if err != nil {
		t.Fatal(err)
	}
	want := settings{
		retentionMs: 7 * 24 * 3600 * 1000, retentionBytes: -1, delete: true,
		Rules: partition.Rules{MaxMessage: 1048588, Before: 1<<63 - 1, After: 3600 * 1000}, difference: 1<<63 - 1, maxLag: 1<<63 - 1, deleteRetention: 24 * 3600 * 1000, dirtyRatio: 0.5,
	}
	if s != want {
		t.Errorf("defaults\n%+v, want\n%+v", s, want)
	}
}

func TestConfigValues(t *testing.T) {
	for _, c := range []struct {
		key, value, text string // text of the error, "" if there is none
	}{
		{CleanupPolicy, "compact", ""},
		{CleanupPolicy, "compact, delete", ""},
		{CleanupPolicy, "", "want delete"},
		{CleanupPolicy, "compress", "want delete"},
		{RetentionMs, "-1", ""},
		{RetentionMs, "-2", "from -1"},
		{RetentionMs, "1e3", "number"},
		{RetentionBytes, "9223372036854775807", ""},
		{RetentionBytes, "9223372036854775808", "number"},
		{MaxMessageBytes, "2147483648", "to 2147483647"},
		{TimestampType, "LogAppendTime", ""},
		{TimestampType, "logappendtime", "CreateTime"},
		{MinDirtyRatio, "0.1", ""},
		{MinDirtyRatio, "1.1", "0 to 1"},
		{MinDirtyRatio, "NaN", "0 to 1"},
		{CompressionType, "producer", ""},
		{CompressionType, "zstd", ""},
		{CompressionType, "zip", "want one of producer, "},
		{"compression.gzip.level", "10", "from -1 to 9"},
		{MinInsyncReplicas, "2", ""},
		{MinInsyncReplicas, "0", "from 1"},
		{"leader.replication.throttled.replicas", "", ""},
		{"leader.replication.throttled.replicas", "*", ""},
		{"follower.replication.throttled.replicas", "0:1, 12:3", ""},
		{"follower.replication.throttled.replicas", "0:1,x", "partition:broker"},
		{"remote.storage.enable", "true", ""},
		{"local.retention.ms", "-3", "from -2"},
		{"message.format.version", "2.8", ""},
		{"message.format.version", "new", "3.0-IV1"},
		{"segment.bytes", "50000000", ""},
		{"segment.bytes", "x", "number"},
		{"internal.segment.bytes", "1000", ""},
		{"internal.segment.bytes", "x", "number"},
		{"preallocate", "TRUE", ""},
		{"preallocate", "yes", "true or false"},
		{"retention.hours", "1", "unknown configuration"},
	} {
		err := Config{c.key: c.value}.Validate()
		if c.text == "" {
			if err != nil {
				t.Errorf("%s=%s: %v", c.key, c.value, err)
			}
			continue
		}
		if !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), c.key) {
			t.Errorf("%s=%s: %v, want it to say %q", c.key, c.value, err, c.text)
		}
	}
	// The older name sets each bound of timestamps that is not set itself.
	s, err := Config{TimestampDifference: "5", TimestampAfter: "7"}.parse()
	if err != nil || s.Before != 5 || s.After != 7 {
		t.Errorf("a difference of 5 means %d before and %d after, %v; want 5, and 7 as set", s.Before, s.After, err)
	}
	err = Config{"bogus": "1"}.Validate()
	for _, k := range ConfigKeys() {
		if !strings.Contains(err.Error(), k.Name) {
			t.Errorf("the error for an unknown configuration does not list %s", k.Name)
		}
	}
	if err := (Config{MinCompactionLag: "10", MaxCompactionLag: "9"}).Validate(); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("lags that contradict each other: %v", err)
	}
}
