package server

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/lease"
)

// Setting is one field of [Config] as people write it: a flag --name, a key name
// in a file, and a variable MAINSTEM_NAME.
type Setting struct {
	Name  string
	Type  string // what the value is, for help texts: "directory", "bytes", "bool"
	Usage string

	set func(c *Config, v string) error
	get func(c *Config) string
}

// Env returns the name of the setting's environment variable.
func (s Setting) Env() string { return envName(s.Name) }

// Get returns the setting's value in c, as Set reads it.
func (s Setting) Get(c *Config) string { return s.get(c) }

// Set changes the setting in c. The error names the setting, the value and what is valid.
func (s Setting) Set(c *Config, v string) error {
	if err := s.set(c, v); err != nil {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: s.Name, Err: err}
	}
	return nil
}

// Settings lists all settings in the order in which help texts show them.
func Settings() []Setting {
	return []Setting{
		text("log", "target", "where the log lives: a directory, memory:, nats://HOST:PORT, nats:embedded?store=DIRECTORY, or postgres://HOST/DATABASE", func(c *Config) *string { return &c.Log }),
		text("listen", "host:port", "address of the HTTP listener", func(c *Config) *string { return &c.Listen }),
		text("kafka", "host:port", "address of the listener for Kafka clients; empty turns it off", func(c *Config) *string { return &c.Kafka }),
		text("kafka-advertise", "host:port", "address that Kafka clients are told to connect to (default the listener's)", func(c *Config) *string { return &c.KafkaAdvertise }),
		text("kafka-sasl", "mechanisms", "plain, scram-sha-256, scram-sha-512: Kafka clients must authenticate by one of these, separated by commas (default none)", func(c *Config) *string { return &c.KafkaSASL }),
		flag("kafka-auto-create", "create a topic that a Kafka client produces to or asks for", func(c *Config) *bool { return &c.KafkaAutoCreate }),
		count("kafka-auto-create-rate", "most topics in a minute that are created because Kafka clients name them; clients ask again for others (default 300)", func(c *Config) *int { return &c.KafkaAutoCreateRate }),
		count("kafka-auto-create-topics", "number of topics from which on none is created because a Kafka client names it (default 10000)", func(c *Config) *int { return &c.KafkaAutoCreateTotal }),
		count("kafka-partitions", "partitions of a topic whose creator does not say (default 1)", func(c *Config) *int { return &c.KafkaPartitions }),
		text("omnibus", "host:port", "address of the HTTP listener for clients of OMNIbus; with it the server keeps alert tables (default not)", func(c *Config) *string { return &c.Omnibus }),
		text("omnibus-users", "file", "file of the users of alerts, with roles and hashes of passwords, as mainstem alerts user set makes it; it is read again when it changes (default nobody is asked for a password)", func(c *Config) *string { return &c.OmnibusUsers }),
		text("alert-server-name", "name", "name of the object server, which new alerts carry in ServerName (default NCOMS)", func(c *Config) *string { return &c.AlertServerName }),
		flag("alert-automations", "run the automations of the alert tables that have an interval", func(c *Config) *bool { return &c.AlertAutomations }),
		text("alert-syslog", "host:port", "address on which syslog messages become alerts, by UDP and TCP (default not)", func(c *Config) *string { return &c.AlertSyslog }),
		text("alert-syslog-ca", "file", "PEM file of authorities: syslog comes by TCP with TLS only, from who has a certificate of theirs", func(c *Config) *string { return &c.AlertSyslogCA }),
		text("alert-webhook", "host:port", "address on which alerts of Prometheus and of its Alertmanager come in (default not)", func(c *Config) *string { return &c.AlertWebhook }),
		text("alert-mapping", "file", "YAML file that says which alerts syslog messages and those of Prometheus become (default built-in mappings)", func(c *Config) *string { return &c.AlertMapping }),
		text("cluster", "name@host:port", "be a node of that name in a cluster of actors, and listen for the others at that address (default not)", func(c *Config) *string { return &c.Cluster }),
		text("cluster-advertise", "host:port", "address that other nodes are told to connect to (default the listener's)", func(c *Config) *string { return &c.ClusterAdvertise }),
		text("cluster-peers", "name=host:port", "nodes of the cluster that are not found through the log, separated by commas", func(c *Config) *string { return &c.ClusterPeers }),
		text("cluster-certs", "directory", "certificates of the cluster, as mainstem actor ca makes them", func(c *Config) *string { return &c.ClusterCerts }),
		text("cluster-secret-file", "file", "file that holds what all nodes of the cluster know, and nobody else", func(c *Config) *string { return &c.ClusterSecretFile }),
		durability(),
		text("tls-cert", "file", "PEM file of the listeners' certificate", func(c *Config) *string { return &c.TLSCert }),
		text("tls-key", "file", "PEM file of the certificate's key", func(c *Config) *string { return &c.TLSKey }),
		text("token", "text", "bearer token that clients must present; others can read it in the process list, so prefer token-file", func(c *Config) *string { return &c.Token }),
		text("token-file", "file", "file that holds the bearer token", func(c *Config) *string { return &c.TokenFile }),
		flag("insecure", "listen beyond loopback without TLS and token", func(c *Config) *bool { return &c.Insecure }),
		size("max-value", "most bytes in one value (default 16MiB)", func(c *Config) *int { return &c.Limits.MaxValue }),
		size("max-batch-bytes", "most bytes in one batch (default 64MiB)", func(c *Config) *int { return &c.Limits.MaxBatchBytes }),
		count("max-batch-writes", "most writes in one batch (default 100000)", func(c *Config) *int { return &c.Limits.MaxBatchWrites }),
		size("memory-limit", "memory that the process should take: beyond it the garbage collector works harder (default $GOMEMLIMIT, else three quarters of what the machine has or its control group allows)", func(c *Config) *int64 { return &c.MemoryLimit }),
		size("memory-budget", "memory that requests, answers and decompression of all clients share; see docs/memory.md (default half of memory-limit, at most 1GiB)", func(c *Config) *int64 { return &c.MemoryBudget }),
		size("cache", "memory for uncompressed blocks of the log (default 64MiB)", func(c *Config) *int64 { return &c.CacheBytes }),
		size("memtable", "memory in which writes are collected before they become a sorted file; twice as much may be held (default 32MiB)", func(c *Config) *int64 { return &c.MemTable }),
		size("min-free", "free disk space below which writes are refused (default 64MiB)", func(c *Config) *int64 { return &c.MinFree }),
		duration("batch-id-age", "how long the IDs of batches are remembered (default 24h)", time.Second, func(c *Config) *time.Duration { return &c.BatchIDAge }),
		duration("sweep-every", "how often age and size limits are enforced on disk (default 10s)", 10*time.Millisecond, func(c *Config) *time.Duration { return &c.SweepEvery }),
		duration("upkeep-every", "how often retention and compaction of topics run (default 30s)", 10*time.Millisecond, func(c *Config) *time.Duration { return &c.UpkeepEvery }),
		size("compaction-memory", "memory for the keys of a topic that is being compacted (default 64MiB)", func(c *Config) *int64 { return &c.Compaction }),
		size("max-request", "most bytes in a request that is no commit (default 4MiB)", func(c *Config) *int { return &c.MaxRequest }),
		size("max-pending", "most bytes of all requests being read or served; those beyond wait (default 512MiB)", func(c *Config) *int64 { return &c.MaxPending }),
		size("max-answers", "most memory of large records on their way to clients, three times their size; answers beyond wait (default 512MiB)", func(c *Config) *int64 { return &c.MaxAnswers }),
		count("max-streams", "most scans, reads, feeds, backups and checks at one time (default 1024)", func(c *Config) *int { return &c.MaxStreams }),
		count("max-snapshots", "most snapshots that clients hold at one time (default 64)", func(c *Config) *int { return &c.MaxSnapshots }),
		duration("snapshot-lease", "how long a snapshot is held that its client does not use (default 1m)", time.Second, func(c *Config) *time.Duration { return &c.SnapshotLease }),
		duration("body-timeout", "how long a request may take to arrive (default 1m)", time.Second, func(c *Config) *time.Duration { return &c.BodyTimeout }),
		duration("stall-timeout", "how long a client may take nothing of a response that waits for it (default 10m)", time.Second, func(c *Config) *time.Duration { return &c.StallTimeout }),
		size("kafka-max-request", "most bytes in a request of a Kafka client (default 100MiB)", func(c *Config) *int { return &c.KafkaMaxRequest }),
		size("kafka-max-pending", "most bytes of all requests of Kafka clients being read or served, and of all answers to them; both are taken from memory-budget (default 512MiB)", func(c *Config) *int { return &c.KafkaMaxPending }),
		size("kafka-max-fetch", "most bytes of records in an answer to a Kafka client (default 64MiB)", func(c *Config) *int { return &c.KafkaMaxFetch }),
		count("kafka-max-connections", "most connections of Kafka clients (default 10000)", func(c *Config) *int { return &c.KafkaMaxConnections }),
		duration("kafka-write-timeout", "how long a Kafka client may take nothing of an answer (default 30s)", time.Second, func(c *Config) *time.Duration { return &c.KafkaWriteTimeout }),
		duration("kafka-idle-timeout", "how long a connection of a Kafka client may be without a request (default 10m)", time.Second, func(c *Config) *time.Duration { return &c.KafkaIdleTimeout }),
		duration("kafka-group-session", "after how long of silence a member of a KIP-848 consumer group is removed (default 45s)", 100*time.Millisecond, func(c *Config) *time.Duration { return &c.KafkaGroupSession }),
		duration("kafka-group-heartbeat", "how often members of KIP-848 consumer groups are told to report (default 5s)", 100*time.Millisecond, func(c *Config) *time.Duration { return &c.KafkaGroupHeartbeat }),
		duration("kafka-lease", "how long after its last sign of life a server on NATS or PostgreSQL keeps the lease to serve Kafka, of which a log has one (default 10s)", lease.MinTTL, func(c *Config) *time.Duration { return &c.KafkaLease }),
		duration("kafka-offset-retention", "how long the offsets of a consumer group without members are kept (default 168h)", time.Second, func(c *Config) *time.Duration { return &c.KafkaOffsetRetention }),
		duration("stop-timeout", "how long running requests may take to end when the server stops", 0, func(c *Config) *time.Duration { return &c.StopTimeout }),
		text("log-format", "text|json", "how the server writes its own log, to standard error", func(c *Config) *string { return &c.LogFormat }),
		level(),
	}
}

func text(name, kind, usage string, field func(*Config) *string) Setting {
	return Setting{
		Name: name, Type: kind, Usage: usage,
		set: func(c *Config, v string) error { *field(c) = v; return nil },
		get: func(c *Config) string { return *field(c) },
	}
}

func flag(name, usage string, field func(*Config) *bool) Setting {
	return Setting{
		Name: name, Type: "bool", Usage: usage,
		set: func(c *Config, v string) error {
			b, err := strconv.ParseBool(v)
			if err != nil {
				return fmt.Errorf("%q is not true or false", v)
			}
			*field(c) = b
			return nil
		},
		get: func(c *Config) string { return strconv.FormatBool(*field(c)) },
	}
}

func count(name, usage string, field func(*Config) *int) Setting {
	return Setting{
		Name: name, Type: "number", Usage: usage,
		set: func(c *Config, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n <= 0 {
				return fmt.Errorf("%q is not a number from 1 on", v)
			}
			*field(c) = n
			return nil
		},
		get: func(c *Config) string { return zeroIsEmpty(*field(c)) },
	}
}

func size[T int | int64](name, usage string, field func(*Config) *T) Setting {
	return Setting{
		Name: name, Type: "size", Usage: usage,
		set: func(c *Config, v string) error {
			n, err := ParseSize(v)
			if err == nil && (n <= 0 || int64(T(n)) != n) {
				err = fmt.Errorf("%q is out of range", v)
			}
			if err == nil {
				*field(c) = T(n)
			}
			return err
		},
		get: func(c *Config) string { return zeroIsEmpty(*field(c)) },
	}
}

func zeroIsEmpty[T int | int64](n T) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

func duration(name, usage string, least time.Duration, field func(*Config) *time.Duration) Setting {
	return Setting{
		Name: name, Type: "duration", Usage: usage,
		set: func(c *Config, v string) error {
			d, err := time.ParseDuration(v)
			if err != nil {
				return fmt.Errorf("%q is not a duration such as 1m30s", v)
			}
			if d < least {
				return fmt.Errorf("%q is less than %v", v, least)
			}
			*field(c) = d
			return nil
		},
		get: func(c *Config) string {
			if *field(c) == 0 {
				return ""
			}
			return field(c).String()
		},
	}
}

func durability() Setting {
	return Setting{
		Name: "durability", Type: "fsync|os|interval=D", Usage: "what a write has reached when it is acknowledged",
		set: func(c *Config, v string) (err error) {
			c.Durability, err = mainstem.ParseDurability(v)
			return err
		},
		get: func(c *Config) string { return c.Durability.String() },
	}
}

func level() Setting {
	return Setting{
		Name: "log-level", Type: "level", Usage: "least severity that is logged: debug, info, warn or error",
		set: func(c *Config, v string) error {
			if err := c.LogLevel.UnmarshalText([]byte(v)); err != nil {
				return fmt.Errorf("%q is not debug, info, warn or error", v)
			}
			return nil
		},
		get: func(c *Config) string { return strings.ToLower(c.LogLevel.String()) },
	}
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
	{"", 1},
}

// ParseSize reads a number of bytes such as 4096, 16MiB or 2GB.
func ParseSize(s string) (int64, error) {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n > (1<<62)/u.bytes || n < -(1<<62)/u.bytes {
			break
		}
		return n * u.bytes, nil
	}
	return 0, fmt.Errorf("%q is not a number of bytes such as 4096, 16MiB or 2GB", s)
}
