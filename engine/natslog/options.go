package natslog

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
)

// Options tune a log. Nil and zero fields mean the defaults. Open copies them.
type Options struct {
	// Stream is the name of the JetStream stream that carries the log; Open creates
	// it unless it exists. Default "MAINSTEM".
	Stream string
	// Replicas is how many servers keep the stream, 1 to 5. 0 takes the stream as it
	// is, or 1 for a new one. It does not change a stream that exists.
	Replicas int
	// Placement names the cluster and the tags of the servers that may keep a new stream.
	Placement Placement
	// Memory keeps a new stream in the memory of its servers: for tests.
	Memory bool
	// Compress makes the servers of a new stream compress it on disk (S2).
	Compress bool
	// Domain is the JetStream domain of the stream, "" for that of the connection.
	Domain string

	// Limits of one value and one batch. Defaults: see [mainstem.Limits]. A record
	// must also fit into one message of the server (its max_payload), and a batch into
	// MaxMessages of them.
	Limits mainstem.Limits
	// MaxMessages is how many messages one atomic batch publish may have: max_batch_size
	// of the server, whose default is 1,000.
	MaxMessages int
	// BatchIDAge is how long the IDs of batches are remembered (law 6). Default 24h.
	BatchIDAge time.Duration
	// CacheBytes bounds the memory for values. Default 64 MiB.
	CacheBytes int64
	// Timeout bounds how long a commit or a read waits for a server that does not answer,
	// for example while the stream elects a leader. It also bounds how long Open tries to
	// connect to servers that accept connections, but do not answer. Default 30s.
	Timeout time.Duration
	// Silence is for how long a server may leave pings unanswered before Open's connection to
	// it is taken for lost and made anew, as when its host is gone and nothing says so. At
	// least 100 ms; less than a slow server takes for an answer makes connections come and
	// go. It is the option silence of an address, such as silence=2s. Default 5s. A connection
	// that [OpenConn] is given goes by nats.PingInterval and nats.MaxPingsOutstanding.
	Silence time.Duration
	// Latest makes every read first ask the leader how far the log has come, and wait for
	// that much: it then sees what other processes have committed before it began. It
	// costs a round trip. Without it a read sees all commits of its own Log, and those
	// of other processes a moment later; conditions always hold either way.
	Latest bool

	// SweepEvery is how often age and size limits are enforced and dead messages
	// removed. Default 10s; negative never, if another process does it: this one then only
	// asks every 10s what has been deleted, and forgets it.
	SweepEvery time.Duration
	// Grace is how long a message stays after its last record has died, so that slow
	// readers in other processes can finish. All processes should have the same. A log of which
	// the stream takes longer to read does not open while others delete messages; one that was
	// away for longer reads its state anew. Default 1m.
	Grace time.Duration
	// Now is the clock. Default [time.Now].
	Now func() time.Time
	// Monotonic is the time since some fixed moment by a clock that nobody sets; jumps of
	// Now are noticed by it. Default: the monotonic readings of Now's times; if they have
	// none, Now is always believed.
	Monotonic func() time.Duration
	// MustExist makes opening fail with NotFound instead of creating a stream.
	MustExist bool
	// Logger receives what an operator should know. Default: discards.
	Logger *slog.Logger
	// Connect are further options for the connection that Open makes, such as
	// credentials and TLS.
	Connect []nats.Option
}

// Placement says where the servers put a stream.
type Placement struct {
	Cluster string
	Tags    []string
}

// The defaults.
const (
	DefaultStream      = "MAINSTEM"
	DefaultMaxMessages = 1000
	DefaultBatchIDAge  = 24 * time.Hour
	DefaultCacheBytes  = 64 << 20
	DefaultTimeout     = 30 * time.Second
	DefaultSilence     = 5 * time.Second
	DefaultSweepEvery  = 10 * time.Second
	DefaultGrace       = time.Minute
)

// minSilence is the shortest Options.Silence.
const minSilence = 100 * time.Millisecond

// maxStreamName bounds the name of a stream.
const maxStreamName = 255

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.Stream = cmp.Or(c.Stream, DefaultStream)
	c.Limits = c.Limits.WithDefaults()
	c.MaxMessages = cmp.Or(c.MaxMessages, DefaultMaxMessages)
	c.BatchIDAge = cmp.Or(c.BatchIDAge, DefaultBatchIDAge)
	c.CacheBytes = cmp.Or(c.CacheBytes, DefaultCacheBytes)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Silence = cmp.Or(c.Silence, DefaultSilence)
	c.SweepEvery = cmp.Or(c.SweepEvery, DefaultSweepEvery)
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate reports every field out of range.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(len(o.Stream) <= maxStreamName && !strings.ContainsAny(o.Stream, " \t\r\n\f.*>/\\"), "Stream is %q: want at most %d bytes without blanks and any of . * > / \\", o.Stream, maxStreamName)
	check(o.Replicas >= 0 && o.Replicas <= 5, "Replicas is %d: want 0 (as it is) to 5", o.Replicas)
	check(o.Limits.MaxValue >= 0 && o.Limits.MaxBatchBytes >= 0 && o.Limits.MaxBatchWrites >= 0, "Limits %+v: want 0 (default) or more", o.Limits)
	check(o.MaxMessages >= 0, "MaxMessages is %d: want 0 (default) or more", o.MaxMessages)
	check(o.BatchIDAge >= 0, "BatchIDAge is %v: want 0 (default) or more", o.BatchIDAge)
	check(o.CacheBytes >= 0, "CacheBytes is %d: want 0 (default) or more", o.CacheBytes)
	check(o.Timeout >= 0, "Timeout is %v: want 0 (default) or more", o.Timeout)
	check(o.Silence == 0 || o.Silence >= minSilence, "Silence is %v: want 0 (default) or at least %v", o.Silence, minSilence)
	check(o.Grace >= 0, "Grace is %v: want 0 (default) or more", o.Grace)
	if len(errs) == 0 {
		return nil
	}
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "open options", Err: errors.Join(errs...)}
}

// fromURL takes the query of an address into the options and returns the address
// without it. Addresses may be several, separated by commas, which is why they
// are not parsed as one URL.
func (o *Options) fromURL(address string) (string, error) {
	servers, query, _ := strings.Cut(address, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", openInvalid(address, "the query: %w", err)
	}
	for name, all := range values {
		value := all[len(all)-1]
		switch name {
		case "stream":
			o.Stream = value
		case "domain":
			o.Domain = value
		case "cluster":
			o.Placement.Cluster = value
		case "tags":
			o.Placement.Tags = strings.Split(value, ",")
		case "silence":
			if o.Silence, err = time.ParseDuration(value); err != nil {
				return "", openInvalid(address, "silence=%s is no duration such as 2s", value)
			}
		case "replicas":
			if o.Replicas, err = strconv.Atoi(value); err != nil {
				return "", openInvalid(address, "replicas=%s is no number", value)
			}
		case "latest":
			if o.Latest, err = strconv.ParseBool(value); err != nil {
				return "", openInvalid(address, "latest=%s is neither true nor false", value)
			}
		default:
			return "", openInvalid(address, "the parameter %q is not known: want stream, replicas, cluster, tags, domain or latest", name)
		}
	}
	return servers, nil
}
