package coordinator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/mainstemdev/mainstem"
)

// The defaults and limits of a [Config].
const (
	DefaultListen          = "127.0.0.1:5000"
	DefaultTimeout         = 5 * time.Second
	DefaultIdleTimeout     = time.Minute
	DefaultShutdownTimeout = 10 * time.Second
	DefaultMaxBody         = 4 << 20
	DefaultMaxRequests     = 256

	DefaultMaxConnections     = 10
	MaxConnections            = 1000
	DefaultFailBackDelay      = 5 * time.Minute
	DefaultQueryTimeout       = 4 * time.Second
	DefaultWaitTimeout        = 2 * time.Second
	DefaultDialTimeout        = time.Second
	DefaultConnectionIdle     = time.Minute
	DefaultConnectionLifetime = time.Hour
	DefaultHealthInterval     = 5 * time.Second
	DefaultHealthTimeout      = time.Second
	DefaultBreakerFailures    = 3
	DefaultBreakerDelay       = 5 * time.Second
	DefaultMaxResult          = 256 << 20
	DefaultMaxRow             = 4 << 20
	DefaultStreamAfter        = 1 << 20
)

// Config says what a coordinator asks, and its limits. Zero fields mean the defaults.
// The names in YAML are those of nco-qoordinator, and more.
type Config struct {
	LogLevel string     `yaml:"log_level"` // for the program: DEBUG, INFO, WARN or ERROR, the default
	LogFile  string     `yaml:"log_file"`  // for the program: where to log to; default: standard error
	HTTP     HTTPConfig `yaml:"http_server"`
	OMNIbus  OMNIConfig `yaml:"omnibus"`
}

// HTTPConfig is about the requests to the coordinator.
type HTTPConfig struct {
	Listen          string        `yaml:"listen"`           // address; default [DefaultListen]
	Timeout         time.Duration `yaml:"timeout"`          // for reading a request, and for a client that takes nothing; default [DefaultTimeout]
	IdleTimeout     time.Duration `yaml:"idle_timeout"`     // of connections; default [DefaultIdleTimeout]
	ShutdownTimeout time.Duration `yaml:"shutdown_timeout"` // for what is running when Close is called; default [DefaultShutdownTimeout]
	MaxBody         int           `yaml:"max_body"`         // bytes of a request; default [DefaultMaxBody]
	MaxRequests     int           `yaml:"max_requests"`     // at the same time; default [DefaultMaxRequests]
}

// OMNIConfig is about the object servers.
type OMNIConfig struct {
	// Clusters are the object servers of each cluster, the preferred one first: host:port
	// or a URL of an HTTP interface, or the name of a backend in [Options].
	Clusters map[string][]string `yaml:"clusters"`
	// ConnectionLabel is what the coordinator calls itself. Default "coordinator".
	ConnectionLabel string        `yaml:"connection_label"`
	MaxConnections  int           `yaml:"max_connections"`  // to each cluster; default [DefaultMaxConnections], at most [MaxConnections]
	RandomFailOver  bool          `yaml:"random_fail_over"` // to any other server, not the next
	FailBack        *bool         `yaml:"fail_back"`        // to the first server when it is back; default true. It overrides RandomFailOver
	FailBackDelay   time.Duration `yaml:"fail_back_delay"`  // since the fail-over; default [DefaultFailBackDelay]

	QueryTimeout       time.Duration `yaml:"query_timeout"`       // for a cluster's whole answer, until its rows are streamed; default [DefaultQueryTimeout]
	WaitTimeout        time.Duration `yaml:"wait_timeout"`        // for a connection when all are in use; default [DefaultWaitTimeout]
	DialTimeout        time.Duration `yaml:"dial_timeout"`        // for connecting to one server; default [DefaultDialTimeout]
	ConnectionIdle     time.Duration `yaml:"connection_idle"`     // how long a connection is kept unused; default [DefaultConnectionIdle]
	ConnectionLifetime time.Duration `yaml:"connection_lifetime"` // how long a connection is used at all; default [DefaultConnectionLifetime]
	HealthInterval     time.Duration `yaml:"health_interval"`     // between checks of a cluster; default [DefaultHealthInterval]
	HealthTimeout      time.Duration `yaml:"health_timeout"`      // of a check; default [DefaultHealthTimeout]
	BreakerFailures    int           `yaml:"breaker_failures"`    // in a row, before a server is left alone; default [DefaultBreakerFailures]
	BreakerDelay       time.Duration `yaml:"breaker_delay"`       // how long it is left alone; default [DefaultBreakerDelay]
	MaxResult          int64         `yaml:"max_result"`          // bytes of a cluster's answer; default [DefaultMaxResult]
	MaxRow             int           `yaml:"max_row"`             // bytes of a row; default [DefaultMaxRow]
	StreamAfter        int           `yaml:"stream_after"`        // bytes of an answer that are held back in case it fails; default [DefaultStreamAfter]
	CAFile             string        `yaml:"ca_file"`             // for the program: PEM authorities for https://; default: the system's
}

// ParseConfig reads a configuration in YAML. Unknown keys, values out of range and a
// second document are Invalid.
func ParseConfig(text []byte) (*Config, error) {
	c := &Config{}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "coordinator", "the configuration: %w", err)
	}
	var more yaml.Node
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "coordinator", "the configuration: there is something behind its end")
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}

var clusterName = regexp.MustCompile(`^[A-Za-z0-9_.\-]{1,64}$`)

// Validate returns an Invalid error that names everything out of range.
func (c *Config) Validate() error {
	var errs []error
	add := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if len(c.OMNIbus.Clusters) == 0 {
		add("omnibus.clusters is empty: name at least one cluster")
	}
	for _, name := range c.names() {
		servers := c.OMNIbus.Clusters[name]
		switch {
		case !clusterName.MatchString(name):
			add("the cluster %.80q: want 1 to 64 letters, digits, and any of _.-", name)
		case len(servers) == 0:
			add("the cluster %s has no servers", name)
		}
		for i, s := range servers {
			if s == "" || slices.Contains(servers[:i], s) {
				add("the cluster %s: server %d is %q: want each once", name, i+1, s)
			}
		}
	}
	for _, f := range c.numbers() {
		if f.v < 0 {
			add("%s is negative: want 0 (the default) or more", f.name)
		}
	}
	if c.OMNIbus.MaxConnections > MaxConnections {
		add("omnibus.max_connections is %d: at most %d", c.OMNIbus.MaxConnections, MaxConnections)
	}
	if c.LogLevel != "" && !slices.Contains([]string{"DEBUG", "INFO", "WARN", "ERROR"}, strings.ToUpper(c.LogLevel)) {
		add("log_level is %q: want DEBUG, INFO, WARN or ERROR", c.LogLevel)
	}
	if strings.ContainsAny(c.OMNIbus.ConnectionLabel, "\r\n") {
		add("omnibus.connection_label has a line end")
	}
	if errs == nil {
		return nil
	}
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "coordinator", Err: errors.Join(errs...)}
}

// number is a field that has a name and is not negative.
type number struct {
	name string
	v    int64
}

func (c *Config) numbers() []number {
	h, o := &c.HTTP, &c.OMNIbus
	return []number{
		{"http_server.timeout", int64(h.Timeout)}, {"http_server.idle_timeout", int64(h.IdleTimeout)}, {"http_server.shutdown_timeout", int64(h.ShutdownTimeout)},
		{"http_server.max_body", int64(h.MaxBody)}, {"http_server.max_requests", int64(h.MaxRequests)},
		{"omnibus.max_connections", int64(o.MaxConnections)}, {"omnibus.fail_back_delay", int64(o.FailBackDelay)}, {"omnibus.query_timeout", int64(o.QueryTimeout)},
		{"omnibus.wait_timeout", int64(o.WaitTimeout)}, {"omnibus.dial_timeout", int64(o.DialTimeout)}, {"omnibus.connection_idle", int64(o.ConnectionIdle)},
		{"omnibus.connection_lifetime", int64(o.ConnectionLifetime)}, {"omnibus.health_interval", int64(o.HealthInterval)}, {"omnibus.health_timeout", int64(o.HealthTimeout)},
		{"omnibus.breaker_failures", int64(o.BreakerFailures)}, {"omnibus.breaker_delay", int64(o.BreakerDelay)}, {"omnibus.max_result", o.MaxResult},
		{"omnibus.max_row", int64(o.MaxRow)}, {"omnibus.stream_after", int64(o.StreamAfter)},
	}
}

// names returns the names of the clusters in order.
func (c *Config) names() []string {
	names := make([]string, 0, len(c.OMNIbus.Clusters))
	for name := range c.OMNIbus.Clusters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// withDefaults returns a copy in which every field has its value.
func (c *Config) withDefaults() Config {
	out := *c
	h, o := &out.HTTP, &out.OMNIbus
	fill(&h.Listen, DefaultListen)
	fill(&h.Timeout, DefaultTimeout)
	fill(&h.IdleTimeout, DefaultIdleTimeout)
	fill(&h.ShutdownTimeout, DefaultShutdownTimeout)
	fill(&h.MaxBody, DefaultMaxBody)
	fill(&h.MaxRequests, DefaultMaxRequests)
	fill(&o.ConnectionLabel, "coordinator")
	fill(&o.MaxConnections, DefaultMaxConnections)
	fill(&o.FailBackDelay, DefaultFailBackDelay)
	fill(&o.QueryTimeout, DefaultQueryTimeout)
	fill(&o.WaitTimeout, DefaultWaitTimeout)
	fill(&o.DialTimeout, DefaultDialTimeout)
	fill(&o.ConnectionIdle, DefaultConnectionIdle)
	fill(&o.ConnectionLifetime, DefaultConnectionLifetime)
	fill(&o.HealthInterval, DefaultHealthInterval)
	fill(&o.HealthTimeout, DefaultHealthTimeout)
	fill(&o.BreakerFailures, DefaultBreakerFailures)
	fill(&o.BreakerDelay, DefaultBreakerDelay)
	fill(&o.MaxResult, DefaultMaxResult)
	fill(&o.MaxRow, DefaultMaxRow)
	fill(&o.StreamAfter, DefaultStreamAfter)
	if o.FailBack == nil {
		yes := true
		o.FailBack = &yes
	}
	return out
}

func fill[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}
