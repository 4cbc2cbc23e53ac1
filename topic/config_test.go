package topic

import (
	"errors"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
)

// Every default is a value that is allowed, and Kafka's.
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
		retentionMs: 7 * 24 * 3600 * 1000, retentionBytes: -1, delete: true, maxMessage: 1048588,
		before: 1<<63 - 1, after: 3600 * 1000, maxLag: 1<<63 - 1, deleteRetention: 24 * 3600 * 1000, dirtyRatio: 0.5,
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
		{CompressionType, "lz4", `only "producer"`},
		{MinInsyncReplicas, "2", `only "1"`},
		{"segment.bytes", "50000000", ""},
		{"segment.bytes", "x", "number"},
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
	err := Config{"bogus": "1"}.Validate()
	for _, k := range ConfigKeys() {
		if !strings.Contains(err.Error(), k.Name) {
			t.Errorf("the error for an unknown configuration does not list %s", k.Name)
		}
	}
	if err := (Config{MinCompactionLag: "10", MaxCompactionLag: "9"}).Validate(); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("lags that contradict each other: %v", err)
	}
}
