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
	"unicode"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/readfile"
)

// Defaults of [Config].
const (
	DefaultLog         = "mainstem-data"
	DefaultListen      = "127.0.0.1:8080"
	DefaultStopTimeout = 10 * time.Second
)

// Config is the configuration of a server. Begin with [DefaultConfig]. [Config.Settings] lists
// the names of the fields in files, variables and flags.
//
// For numbers, sizes and durations 0 means the default; for texts "" means none.
type Config struct {
	Log            string              `name:"log" unit:"target" help:"where the log lives: a directory, memory:, nats://HOST:PORT, nats:embedded?store=DIRECTORY, or postgres://HOST/DATABASE"`
	Durability     mainstem.Durability `name:"durability" unit:"fsync|os|interval=D" help:"what a write has reached when it is acknowledged"`
	MaxValue       int                 `name:"max-value" unit:"size" help:"most bytes in one value" default:"16MiB"`
	MaxBatchBytes  int                 `name:"max-batch-bytes" unit:"size" help:"most bytes in one batch" default:"64MiB"`
	MaxBatchWrites int                 `name:"max-batch-writes" help:"most writes in one batch" default:"100000"`
	CacheBytes     int64               `name:"cache" unit:"size" help:"memory for uncompressed blocks of the log" default:"64MiB"`
	MemTable       int64               `name:"memtable" unit:"size" help:"memory in which writes are collected before they become a sorted file; three times as much may be held" default:"32MiB"`
	MinFree        int64               `name:"min-free" unit:"size" help:"free disk space below which writes are refused" default:"64MiB"`
	BatchIDAge     time.Duration       `name:"batch-id-age" help:"how long the IDs of batches are remembered" default:"24h" least:"1s"`
	SweepEvery     time.Duration       `name:"sweep-every" help:"how often age and size limits are enforced on disk" default:"10s" least:"10ms"`
	UpkeepEvery    time.Duration       `name:"upkeep-every" help:"how often retention and compaction of topics run" default:"30s" least:"10ms"`
	Compaction     int64               `name:"compaction-memory" unit:"size" help:"memory for the keys of a topic that is being compacted" default:"64MiB"`

	// Memory, see docs/memory.md.
	MemoryLimit  int64 `name:"memory-limit" unit:"size" help:"memory that the process should take: beyond it the garbage collector works harder" default:"$GOMEMLIMIT, else three quarters of what the machine has or its control group allows"`
	MemoryBudget int64 `name:"memory-budget" unit:"size" help:"memory that requests, answers and decompression of all clients share; see docs/memory.md" default:"half of memory-limit, at most 1GiB"`

	// Limits of the RPC handler; see [rpc.Options].
	MaxRequest    int           `name:"max-request" unit:"size" help:"most bytes in a request that is no commit" default:"4MiB"`
	MaxPending    int64         `name:"max-pending" unit:"size" help:"most bytes of all requests being read or served; those beyond wait" default:"512MiB"`
	MaxAnswers    int64         `name:"max-answers" unit:"size" help:"most memory of large records on their way to clients, three times their size; answers beyond wait" default:"512MiB"`
	MaxStreams    int           `name:"max-streams" help:"most scans, reads, feeds, backups and checks at one time" default:"1024"`
	MaxSnapshots  int           `name:"max-snapshots" help:"most snapshots that clients hold at one time" default:"64"`
	SnapshotLease time.Duration `name:"snapshot-lease" help:"how long a snapshot is held that its client does not use" default:"1m" least:"1s"`
	BodyTimeout   time.Duration `name:"body-timeout" help:"how long a request may take to arrive" default:"1m" least:"1s"`
	StallTimeout  time.Duration `name:"stall-timeout" help:"how long a client may take nothing of a response that waits for it" default:"10m" least:"1s"`

	Listen      string        `name:"listen" unit:"host:port" help:"address of the HTTP listener"`
	TLSCert     string        `name:"tls-cert" unit:"file" help:"PEM file of the listeners' certificate"`
	TLSKey      string        `name:"tls-key" unit:"file" help:"PEM file of the certificate's key"`
	Token       string        `name:"token" unit:"text" help:"bearer token that clients must present; others can read it in the process list, so prefer token-file"`
	TokenFile   string        `name:"token-file" unit:"file" help:"file that holds the bearer token"`
	Insecure    bool          `name:"insecure" help:"listen beyond loopback without TLS and token"`
	StopTimeout time.Duration `name:"stop-timeout" help:"how long running requests may take to end when the server stops"`
	LogFormat   string        `name:"log-format" unit:"text|json" help:"how the server writes its own log, to standard error"`
	LogLevel    slog.Level    `name:"log-level" unit:"level" help:"least severity that is logged: debug, info, warn or error"`

	// Components run on the log, in this order. They belong to the server that is opened with
	// this configuration. [Config.Settings] includes their settings.
	Components []Component

	// Logger receives the log messages of the server; nil discards them. See [Config.NewLogger].
	Logger *slog.Logger
}

// DefaultConfig returns a configuration with the default of each setting.
func DefaultConfig() Config {
	return Config{
		Log: DefaultLog, Durability: mainstem.Fsync, Listen: DefaultListen,
		StopTimeout: DefaultStopTimeout, LogFormat: "text", LogLevel: slog.LevelInfo,
	}
}

// limits returns the limits of batches; 0 means the default of the engine.
func (c *Config) limits() mainstem.Limits {
	return mainstem.Limits{MaxValue: c.MaxValue, MaxBatchBytes: c.MaxBatchBytes, MaxBatchWrites: c.MaxBatchWrites}
}

// Validate returns an error of kind Invalid with all mistakes, each with the name of its
// setting. Files that settings name are not read before the server opens.
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
	check(c.MaxValue >= 0, "max-value is %d: want more than 0", c.MaxValue)
	check(c.MaxBatchBytes >= 0, "max-batch-bytes is %d: want more than 0", c.MaxBatchBytes)
	check(c.MaxBatchWrites >= 0, "max-batch-writes is %d: want more than 0", c.MaxBatchWrites)
	l := c.limits().WithDefaults()
	check(l.MaxValue <= l.MaxBatchBytes, "max-value (%d) is more than max-batch-bytes (%d): a value must fit into a batch", l.MaxValue, l.MaxBatchBytes)
	check(c.MemoryLimit >= 0, "memory-limit is %d: want more than 0", c.MemoryLimit)
	check(c.MemoryBudget >= 0, "memory-budget is %d: want more than 0", c.MemoryBudget)
	check(c.MemoryBudget == 0 || c.MemoryLimit == 0 || c.MemoryBudget <= c.MemoryLimit, "memory-budget (%d) is more than memory-limit (%d)", c.MemoryBudget, c.MemoryLimit)
	check((c.TLSCert == "") == (c.TLSKey == ""), "tls-cert and tls-key belong together: only one is set")
	check(c.Token == "" || c.TokenFile == "", "token and token-file are both set: choose one")
	check(c.Token == strings.TrimSpace(c.Token), "token begins or ends with a blank")
	check(c.StopTimeout >= 0, "stop-timeout is %v: want 0 or more", c.StopTimeout)
	check(c.LogFormat == "text" || c.LogFormat == "json", "log-format is %q: want text or json", c.LogFormat)
	errs = append(errs, CheckToken(c.Token), c.checkListen())
	for _, component := range c.Components {
		if component, ok := component.(Configured); ok {
			errs = append(errs, component.Check(c))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "configuration", Err: err}
	}
	return nil
}

// checkListen returns an error for an address that other machines can reach unprotected.
func (c *Config) checkListen() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("listen is %q: want HOST:PORT, as in %s", c.Listen, DefaultListen)
	}
	var missing []string
	if c.Token == "" && c.TokenFile == "" {
		missing = append(missing, "a token (set token-file)")
	}
	return c.CheckReach("listen", c.Listen, missing, "to serve everyone on that network")
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// token returns the token that clients must present, which may be in a file.
func (c *Config) token() (string, error) {
	if c.TokenFile == "" {
		return c.Token, nil
	}
	return ReadToken(c.TokenFile)
}

// ReadToken returns the token in a file: its one line, without leading and trailing blanks.
func ReadToken(file string) (string, error) {
	b, err := readfile.All(file, readfile.Secret)
	if err != nil {
		return "", &mainstem.Error{Kind: mainstem.KindInvalid, Op: "token file", Err: err}
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", mainstem.Errorf(mainstem.KindInvalid, "token file", "%s does not hold one word", file)
	}
	if err := CheckToken(token); err != nil {
		return "", mainstem.Errorf(mainstem.KindInvalid, "token file", "%s: %w", file, err)
	}
	return token, nil
}

// CheckToken returns an error for a token with a control character, which the header of a
// request cannot carry. The error has the index of the character, and nothing of the token.
func CheckToken(token string) error {
	n := 0
	for _, r := range token {
		if n++; unicode.IsControl(r) {
			return fmt.Errorf("the token holds a control character: it is character %d of the token", n)
		}
	}
	return nil
}

// LoadTLS returns the TLS configuration of a listener with a certificate and its key in PEM
// files, or nil if certFile is empty. If they are wrong, the error has kind Invalid.
func LoadTLS(certFile, keyFile string) (*tls.Config, error) {
	if certFile == "" {
		return nil, nil
	}
	cert, err := readfile.All(certFile, readfile.Text)
	if err != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "tls-cert", Err: err}
	}
	key, err := readfile.All(keyFile, readfile.Text)
	if err != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "tls-key", Err: err}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "tls-cert " + certFile, Err: err}
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// FileError is an error in the contents of a file that a setting names. The setting itself is
// correct.
type FileError struct {
	Setting string // "alert-mapping"
	Err     error
}

// Error returns the name of the setting and the cause.
func (e *FileError) Error() string { return e.Setting + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// NewLogger returns a logger that writes to w in the format and from the level of c.
func (c *Config) NewLogger(w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
