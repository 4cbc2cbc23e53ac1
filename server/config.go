package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/readfile"
)

// The defaults of [Config].
const (
	DefaultLog         = "mainstem-data"
	DefaultListen      = "127.0.0.1:8080"
	DefaultKafka       = "127.0.0.1:9092" // of mainstem serve; a node that was told nothing serves no Kafka
	DefaultStopTimeout = 10 * time.Second
)

// Config is everything that can be set about a node. Start from [DefaultConfig];
// [Settings] lists the names by which files, variables and flags know the fields.
type Config struct {
	Log         string // a directory, or "memory:"
	Durability  mainstem.Durability
	Limits      mainstem.Limits // 0 means the engine's default
	CacheBytes  int64           // 0 means the engine's default, as in all that follow
	MemTable    int64
	MinFree     int64
	BatchIDAge  time.Duration
	SweepEvery  time.Duration
	UpkeepEvery time.Duration // of topics: retention and compaction
	Compaction  int64         // memory for the keys of a topic that is compacted

	// Memory, see docs/memory.md.
	MemoryLimit  int64 // bytes that the process should take; 0 is derived, see [Config.MemoryBytes]
	MemoryBudget int64 // bytes that all clients share; 0 is half of that, at most [DefaultMemoryBudget]

	// Limits of the RPC handler; see [rpc.Options].
	MaxRequest    int
	MaxPending    int64
	MaxAnswers    int64
	MaxStreams    int
	MaxSnapshots  int
	SnapshotLease time.Duration
	BodyTimeout   time.Duration
	StallTimeout  time.Duration

	// The Kafka listener; see [kafka.Options] for the limits, of which 0 means the default.
	Kafka                string // host:port, or "" for none
	KafkaAdvertise       string // host:port that clients are told, or "" for the listener's
	KafkaSASL            string // mechanisms, separated by commas, or "" for no authentication
	KafkaAutoCreate      bool   // create a topic that a client names
	KafkaPartitions      int
	KafkaAutoCreateRate  int // topics a minute
	KafkaAutoCreateTotal int // topics from which on none is created that way
	KafkaMaxRequest      int
	KafkaMaxPending      int
	KafkaMaxConnections  int
	KafkaMaxFetch        int
	KafkaWriteTimeout    time.Duration
	KafkaIdleTimeout     time.Duration
	KafkaOffsetRetention time.Duration
	KafkaGroupSession    time.Duration
	KafkaGroupHeartbeat  time.Duration
	KafkaLease           time.Duration // TTL of the lease to serve Kafka; 0 means [lease.DefaultTTL]

	// The alert tables, and the listener for clients of OMNIbus.
	Omnibus          string // host:port, or "" for none
	OmnibusUsers     string // a file of users as [AlertUsers] writes it, or "" for no passwords
	AlertServerName  string // getservername() and ServerName, or "" for the default of package alert
	AlertAutomations bool   // run what happens in intervals: clearing, expiry, clean-up

	// Ways in: what others send becomes alerts.
	AlertSyslog   string // host:port of UDP and TCP, or "" for none
	AlertSyslogCA string // PEM file; then it is TCP with TLS for who has a certificate of these authorities
	AlertWebhook  string // host:port for Alertmanager and Prometheus, or "" for none
	AlertMapping  string // a file of mappings, or "" for the built-in ones

	// The server as a node of a cluster of actors.
	Cluster           string // name@host:port, or "" for none
	ClusterAdvertise  string // host:port that other nodes are told, or "" for the listener's
	ClusterPeers      string // name=host:port, separated by commas
	ClusterCerts      string // a directory as package devca makes it, or "" for no TLS
	ClusterSecretFile string // a file with what all nodes know

	Listen      string // host:port of the HTTP listener
	TLSCert     string // PEM file; with TLSKey. For all listeners
	TLSKey      string
	Token       string // what clients must present, or ""
	TokenFile   string // a file that holds it
	Insecure    bool   // serve beyond loopback without TLS or token
	StopTimeout time.Duration
	LogFormat   string // "text" or "json"
	LogLevel    slog.Level

	// Logger receives what happens. Nil means that nobody wants to know; see [Config.NewLogger].
	Logger *slog.Logger
}

// DefaultConfig returns the configuration of a node that was told nothing.
func DefaultConfig() Config {
	return Config{
		Log: DefaultLog, Durability: mainstem.Fsync, Listen: DefaultListen,
		KafkaAutoCreate: true, AlertAutomations: true, StopTimeout: DefaultStopTimeout, LogFormat: "text", LogLevel: slog.LevelInfo,
	}
}

// Validate reports all mistakes at once, each naming the setting; it is Invalid.
// Files that settings name are read when the node opens.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Log != "", "log is empty: name a directory, memory:, or a server's URL")
	check(!isRemote(c.Log), "log is %q: serve needs a log that is not served already: a directory, memory:, nats: or postgres:", Redacted(c.Log))
	check(c.Durability >= mainstem.OS, "durability %d is unknown", int64(c.Durability))
	check(c.Limits.MaxValue >= 0, "max-value is %d: want more than 0", c.Limits.MaxValue)
	check(c.Limits.MaxBatchBytes >= 0, "max-batch-bytes is %d: want more than 0", c.Limits.MaxBatchBytes)
	check(c.Limits.MaxBatchWrites >= 0, "max-batch-writes is %d: want more than 0", c.Limits.MaxBatchWrites)
	l := c.Limits.WithDefaults()
	check(l.MaxValue <= l.MaxBatchBytes, "max-value (%d) is more than max-batch-bytes (%d): a value must fit into a batch", l.MaxValue, l.MaxBatchBytes)
	check(c.MemoryLimit >= 0, "memory-limit is %d: want more than 0", c.MemoryLimit)
	check(c.MemoryBudget >= 0, "memory-budget is %d: want more than 0", c.MemoryBudget)
	check(c.MemoryBudget == 0 || c.MemoryLimit == 0 || c.MemoryBudget <= c.MemoryLimit, "memory-budget (%d) is more than memory-limit (%d)", c.MemoryBudget, c.MemoryLimit)
	check((c.TLSCert == "") == (c.TLSKey == ""), "tls-cert and tls-key belong together: only one is set")
	check(c.Token == "" || c.TokenFile == "", "token and token-file are both set: choose one")
	check(c.Token == strings.TrimSpace(c.Token), "token begins or ends with a blank")
	check(c.StopTimeout >= 0, "stop-timeout is %v: want 0 or more", c.StopTimeout)
	check(c.LogFormat == "text" || c.LogFormat == "json", "log-format is %q: want text or json", c.LogFormat)
	errs = append(errs, c.checkListen(), c.checkKafka(), c.checkOmnibus(), c.checkIngest(), c.checkCluster())
	if err := errors.Join(errs...); err != nil {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "configuration", Err: err}
	}
	return nil
}

// checkListen refuses an address that others can reach unless it is protected.
func (c *Config) checkListen() error {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("listen is %q: want HOST:PORT, as in %s", c.Listen, DefaultListen)
	}
	if isLoopback(host) || c.Insecure {
		return nil
	}
	var missing []string
	if c.TLSCert == "" {
		missing = append(missing, "TLS (set tls-cert and tls-key)")
	}
	if c.Token == "" && c.TokenFile == "" {
		missing = append(missing, "a token (set token-file)")
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("listen is %q, which other machines can reach, without %s; listen on 127.0.0.1, or set insecure to serve everyone on that network",
		c.Listen, strings.Join(missing, " and "))
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// token returns what clients must present, read from its file if it has one.
func (c *Config) token() (string, error) {
	if c.TokenFile == "" {
		return c.Token, nil
	}
	return ReadToken(c.TokenFile)
}

// ReadToken returns the token in a file: its one line, without the blanks around it.
func ReadToken(file string) (string, error) {
	b, err := readfile.All(file, readfile.Secret)
	if err != nil {
		return "", &mainstem.Error{Kind: mainstem.KindInvalid, Op: "token file", Err: err}
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", &mainstem.Error{Kind: mainstem.KindInvalid, Op: "token file", Err: fmt.Errorf("%s does not hold one word", file)}
	}
	return token, nil
}

// tls returns the listener's TLS configuration, nil without one.
func (c *Config) tls() (*tls.Config, error) {
	if c.TLSCert == "" {
		return nil, nil
	}
	cert, err := readfile.All(c.TLSCert, readfile.Text)
	if err != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "tls-cert", Err: err}
	}
	key, err := readfile.All(c.TLSKey, readfile.Text)
	if err != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "tls-key", Err: err}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "tls-cert " + c.TLSCert, Err: err}
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// NewLogger returns a logger that writes to w in the format and from the level
// that c asks for.
func (c *Config) NewLogger(w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
