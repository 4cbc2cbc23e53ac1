package topic

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Names of the configurations that have an effect, and of some others that are often set.
// [ConfigKeys] describes all.
const (
	RetentionMs       = "retention.ms"
	RetentionBytes    = "retention.bytes"
	CleanupPolicy     = "cleanup.policy"
	MaxMessageBytes   = "max.message.bytes"
	TimestampType     = "message.timestamp.type"
	TimestampBefore   = "message.timestamp.before.max.ms"
	TimestampAfter    = "message.timestamp.after.max.ms"
	MinCompactionLag  = "min.compaction.lag.ms"
	MaxCompactionLag  = "max.compaction.lag.ms"
	DeleteRetention   = "delete.retention.ms"
	MinDirtyRatio     = "min.cleanable.dirty.ratio"
	CompressionType   = "compression.type"
	MinInsyncReplicas = "min.insync.replicas"
	// TimestampDifference is Kafka's older name, until 3.9. Its value, if set, is that of
	// TimestampBefore and of TimestampAfter unless they are set themselves.
	TimestampDifference = "message.timestamp.difference.max.ms"
)

// Config holds the configurations of a topic that were set, as Kafka names and writes them. The
// others have their defaults.
type Config map[string]string

// ConfigKey describes one configuration.
type ConfigKey struct {
	Name    string
	Type    kmsg.ConfigType
	Default string // in Kafka's notation
	Doc     string // one line for people
	// Inert configurations are validated, stored and listed, because tools set them, but have no
	// effect: they tune files and replicas, which this log does not have.
	Inert bool
	// Internal configurations are listed only where they are set, as Kafka does.
	Internal bool

	set func(*settings, string) error // validates the value, and stores it in the settings unless Inert
}

// ConfigKeys returns all configurations in the order of their names: those of Kafka 3.6 to 4.1, as
// its LogConfig defines them. Of Kafka's internal ones it has only internal.segment.bytes, which
// clients of 4.1 set to get small files.
func ConfigKeys() []ConfigKey { return slices.Clone(configKeys) }

// settings are the parsed configurations of a topic. Times are milliseconds.
type settings struct {
	partition.Rules
	retentionMs, retentionBytes int64   // -1: no limit
	delete                      bool    // cleanup.policy contains delete
	difference                  int64   // see TimestampDifference
	minLag, maxLag              int64   // invariant: minLag ≤ maxLag
	deleteRetention             int64   // between a tombstone's first compaction and its removal
	dirtyRatio                  float64 // share of dirty bytes from which a partition is compacted, 0 to 1
}

var configKeys = buildConfigKeys()

func buildConfigKeys() []ConfigKey {
	keys := append(effectiveKeys(), inertKeys()...)
	slices.SortFunc(keys, func(a, b ConfigKey) int { return strings.Compare(a.Name, b.Name) })
	return keys
}

// effectiveKeys returns the configurations that have an effect.
func effectiveKeys() []ConfigKey {
	const unlimited = math.MaxInt64
	return []ConfigKey{
		long(RetentionMs, 604800000, -1, func(s *settings) *int64 { return &s.retentionMs }, "milliseconds that a batch is kept after its newest timestamp; -1: without end"),
		long(RetentionBytes, -1, -1, func(s *settings) *int64 { return &s.retentionBytes }, "bytes that each partition keeps at least, before older batches go; -1 for no limit"),
		{Name: CleanupPolicy, Type: kmsg.ConfigTypeList, Default: "delete", Doc: "delete, compact, or both", set: setCleanup},
		number(MaxMessageBytes, 1048588, 0, func(s *settings) *int64 { return &s.MaxMessage }, "largest record batch, in bytes, as it is sent"),
		{Name: TimestampType, Type: kmsg.ConfigTypeString, Default: "CreateTime", Doc: "CreateTime keeps the producer's timestamps, LogAppendTime replaces them", set: setTimestampType},
		long(TimestampBefore, unlimited, 0, func(s *settings) *int64 { return &s.Before }, "milliseconds that a CreateTime timestamp may lie in the past"),
		long(TimestampAfter, 3600000, 0, func(s *settings) *int64 { return &s.After }, "milliseconds that a CreateTime timestamp may lie in the future"),
		long(MinCompactionLag, 0, 0, func(s *settings) *int64 { return &s.minLag }, "milliseconds during which a record is certainly not compacted"),
		long(MaxCompactionLag, unlimited, 1, func(s *settings) *int64 { return &s.maxLag }, "milliseconds after which a record is compacted whatever the dirty ratio"),
		long(DeleteRetention, 86400000, 0, func(s *settings) *int64 { return &s.deleteRetention }, "milliseconds that compaction keeps a tombstone after it first met it"),
		{Name: MinDirtyRatio, Type: kmsg.ConfigTypeDouble, Default: "0.5", Doc: "share of not yet compacted bytes at which a partition is compacted", set: setRatio},
		long(TimestampDifference, unlimited, 0, func(s *settings) *int64 { return &s.difference }, "Kafka's older name, until 3.9, of "+TimestampBefore+" and "+TimestampAfter+": it holds where these are not set"),
	}
}

// inertKeys returns the configurations that have no effect, see [ConfigKey].Inert.
func inertKeys() []ConfigKey {
	const unlimited = math.MaxInt64
	text := func(name, def, doc string, check func(string) error) ConfigKey {
		return ConfigKey{Name: name, Type: kmsg.ConfigTypeString, Default: def, Doc: doc, Inert: true, set: func(_ *settings, v string) error { return check(v) }}
	}
	level := func(codec string, def, low, high int64) ConfigKey {
		k := number("compression."+codec+".level", def, low, nil, "Kafka's compression by the broker")
		k.set = integer(nil, low, high)
		return k
	}
	throttled := func(name string) ConfigKey {
		k := text(name, "", "Kafka's replication", checkThrottled)
		k.Type = kmsg.ConfigTypeList
		return k
	}
	internal := number("internal.segment.bytes", 1073741824, math.MinInt32, nil, "Kafka's file size in tests")
	internal.Internal = true
	return []ConfigKey{
		internal,
		text(CompressionType, "producer", "batches keep the producer's compression, whatever is set", oneOf("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")),
		level("gzip", -1, -1, 9),
		level("lz4", 9, 1, 17),
		level("zstd", 3, -131072, 22),
		number(MinInsyncReplicas, 1, 1, nil, "Kafka's replication: durability is the log's"),
		throttled("leader.replication.throttled.replicas"),
		throttled("follower.replication.throttled.replicas"),
		boolean("unclean.leader.election.enable", "false", "Kafka's replication"),
		boolean("remote.storage.enable", "false", "Kafka's tiered storage: all records are in the log"),
		boolean("remote.log.copy.disable", "false", "Kafka's tiered storage"),
		boolean("remote.log.delete.on.disable", "false", "Kafka's tiered storage"),
		long("local.retention.ms", -2, -2, nil, "Kafka's tiered storage: "+RetentionMs+" holds"),
		long("local.retention.bytes", -2, -2, nil, "Kafka's tiered storage: "+RetentionBytes+" holds"),
		boolean("message.downconversion.enable", "true", "Kafka's older message formats, until 3.9"),
		text("message.format.version", "3.0-IV1", "Kafka's older message formats, until 3.9", checkFormatVersion),
		number("segment.bytes", 1073741824, 14, nil, "Kafka's file size"),
		long("segment.ms", 604800000, 1, nil, "Kafka's age of a file"),
		long("segment.jitter.ms", 0, 0, nil, "Kafka's spread of file ages"),
		number("segment.index.bytes", 10485760, 4, nil, "Kafka's index file size"),
		number("index.interval.bytes", 4096, 0, nil, "Kafka's index density"),
		long("file.delete.delay.ms", 60000, 0, nil, "Kafka's delay before files go"),
		long("flush.messages", unlimited, 1, nil, "Kafka's fsync interval: durability is the log's"),
		long("flush.ms", unlimited, 0, nil, "Kafka's fsync interval: durability is the log's"),
		boolean("preallocate", "false", "Kafka's file allocation"),
	}
}

// long returns a configuration of 64 bits, number one of 32 bits, both with a least value, low.
// Without a field of the settings it is inert.
func long(name string, def, low int64, field func(*settings) *int64, doc string) ConfigKey {
	return ConfigKey{Name: name, Type: kmsg.ConfigTypeLong, Default: strconv.FormatInt(def, 10), Doc: doc, Inert: field == nil, set: integer(field, low, math.MaxInt64)}
}

func number(name string, def, low int64, field func(*settings) *int64, doc string) ConfigKey {
	return ConfigKey{Name: name, Type: kmsg.ConfigTypeInt, Default: strconv.FormatInt(def, 10), Doc: doc, Inert: field == nil, set: integer(field, low, math.MaxInt32)}
}

func boolean(name, def, doc string) ConfigKey {
	return ConfigKey{Name: name, Type: kmsg.ConfigTypeBoolean, Default: def, Doc: doc, Inert: true, set: func(_ *settings, v string) error {
		if !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") {
			return fmt.Errorf("want true or false")
		}
		return nil
	}}
}

func integer(field func(*settings) *int64, low, high int64) func(*settings, string) error {
	return func(s *settings, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < low || n > high {
			return fmt.Errorf("want a number from %d to %d", low, high)
		}
		if field != nil {
			*field(s) = n
		}
		return nil
	}
}

func oneOf(allowed ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(allowed, v) {
			return fmt.Errorf("want one of %s", strings.Join(allowed, ", "))
		}
		return nil
	}
}

// throttledReplica matches a partition and a broker, as in "0:101".
var throttledReplica = regexp.MustCompile(`^[0-9]+:[0-9]+$`)

func checkThrottled(v string) error {
	if v == "" || v == "*" || v == "none" {
		return nil
	}
	for part := range strings.SplitSeq(v, ",") {
		if !throttledReplica.MatchString(strings.TrimSpace(part)) {
			return errors.New("want *, none, or a list of partition:broker")
		}
	}
	return nil
}

// formatVersion matches a release of Kafka, with or without a step within it, as in "3.0-IV1".
var formatVersion = regexp.MustCompile(`^[0-9]+(\.[0-9]+){1,3}(-IV[0-9]+)?$`)

func checkFormatVersion(v string) error {
	if !formatVersion.MatchString(v) {
		return errors.New("want a version of Kafka, such as 3.0-IV1")
	}
	return nil
}

func setCleanup(s *settings, v string) error {
	s.delete, s.Compact = false, false
	for _, part := range strings.Split(v, ",") {
		switch strings.TrimSpace(part) {
		case "delete":
			s.delete = true
		case "compact":
			s.Compact = true
		default:
			return fmt.Errorf("want delete, compact or compact,delete")
		}
	}
	return nil
}

func setTimestampType(s *settings, v string) error {
	if v != "CreateTime" && v != "LogAppendTime" {
		return fmt.Errorf("want CreateTime or LogAppendTime")
	}
	s.LogAppendTime = v == "LogAppendTime"
	return nil
}

func setRatio(s *settings, v string) error {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return fmt.Errorf("want a number from 0 to 1")
	}
	s.dirtyRatio = f
	return nil
}

// Validate returns an Invalid error for the first mistake: an unknown configuration, then a value
// that is not allowed, both in the order of names, then a min.compaction.lag.ms above
// max.compaction.lag.ms.
func (c Config) Validate() error {
	_, err := c.parse()
	return err
}

// Get returns the value of a configuration, or its default if it is not set, or "" if no
// configuration has that name.
func (c Config) Get(name string) string {
	if v, ok := c[name]; ok {
		return v
	}
	if i := findConfig(name); i >= 0 {
		return configKeys[i].Default
	}
	return ""
}

// findConfig returns the index of a configuration in configKeys, or -1.
func findConfig(name string) int {
	return slices.IndexFunc(configKeys, func(k ConfigKey) bool { return k.Name == name })
}

// parse validates c and returns it with the defaults filled in.
func (c Config) parse() (settings, error) {
	var s settings
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if findConfig(name) < 0 {
			return s, mainstem.Refusef(mainstem.KindInvalid, "topic config", "unknown configuration %q; there are: %s", name, configNames())
		}
	}
	for _, k := range configKeys {
		v, ok := c[k.Name]
		if !ok {
			v = k.Default
		}
		if err := k.set(&s, v); err != nil {
			return s, mainstem.Refusef(mainstem.KindInvalid, "topic config", "%s is %q: %w", k.Name, v, err)
		}
	}
	if _, ok := c[TimestampBefore]; !ok {
		s.Before = s.difference
	}
	if _, ok := c[TimestampAfter]; !ok && c[TimestampDifference] != "" {
		s.After = s.difference
	}
	if s.minLag > s.maxLag {
		return s, mainstem.Refusef(mainstem.KindInvalid, "topic config", "%s is %d, more than %s, which is %d", MinCompactionLag, s.minLag, MaxCompactionLag, s.maxLag)
	}
	return s, nil
}

func configNames() string {
	names := make([]string, len(configKeys))
	for i := range configKeys {
		names[i] = configKeys[i].Name
	}
	return strings.Join(names, ", ")
}
