package viewhttp

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// Defaults of [Options].
const (
	DefaultMaxStreams   = 1024             // followers at one time
	DefaultBodyTimeout  = time.Minute      // for a request to arrive
	DefaultWriteTimeout = 30 * time.Second // for a client to take one event
	DefaultHeartbeat    = 15 * time.Second // of silence on a stream
	DefaultWaitLimit    = 30 * time.Second // of Mainstem-Wait-For
)

// jsonOverhead is what names and escapes may add to the bytes of a batch as JSON.
const jsonOverhead = 4 << 20

// Alerts takes rows of alert tables into batches. [alert.Server] is one; this package does not
// link it.
//
// [alert.Server]: https://pkg.go.dev/github.com/mainstemdev/mainstem/alert#Server
type Alerts interface {
	// InsertTo adds to batch the insertion of a row into the table called name, with the
	// conditions on what it read.
	InsertTo(ctx context.Context, batch *mainstem.Batch, name string, values map[string]any) error
}

// Options configures [New]. Nil and fields that are zero mean the defaults.
type Options struct {
	// Principal returns the name of the client that sent a request, and false if it may send
	// none. Idempotency keys of different principals are different. Nil: everybody may, under
	// one name.
	Principal func(r *http.Request) (name string, ok bool)

	// Limits are those of a batch of the log.
	Limits mainstem.Limits
	// MaxBody bounds the bytes of a request; 0 means half more than Limits.MaxBatchBytes, and
	// 4 MiB.
	MaxBody int64
	// MaxStreams bounds the followers, and lists without an end, at one time; those that come
	// on top get 503. 0 means [DefaultMaxStreams].
	MaxStreams int
	// Memory is what requests and answers are taken from. Nil: they have no limit together.
	Memory *budget.Budget

	// BodyTimeout is how long a request may take to arrive; 0 means [DefaultBodyTimeout].
	BodyTimeout time.Duration
	// WriteTimeout is how long a client may take nothing of one event or line of a stream
	// before it is cut; 0 means [DefaultWriteTimeout].
	WriteTimeout time.Duration
	// Heartbeat is how long a stream of events may be silent before a comment is sent, so that
	// proxies do not cut it; 0 means [DefaultHeartbeat].
	Heartbeat time.Duration
	// WaitLimit is how long a request waits for the position of Mainstem-Wait-For; 0 means
	// [DefaultWaitLimit].
	WaitLimit time.Duration

	// Alerts returns the alert tables for alert.insert, nil if there are none. It is called for
	// each request. Nil: there never are.
	Alerts func() Alerts
	// Observe is called after each request, with its route as /v1/openapi.yaml names it ("" for
	// a path that has none), its status and how long it took. Nil: nothing is called.
	Observe func(route string, status int, took time.Duration)
	// Logger gets panics of requests; nil discards them.
	Logger *slog.Logger
}

// withDefaults returns a copy of o with fields that are not set replaced.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.Limits = c.Limits.WithDefaults()
	orDefault(&c.MaxBody, int64(c.Limits.MaxBatchBytes)/2*3+jsonOverhead)
	orDefault(&c.MaxStreams, DefaultMaxStreams)
	orDefault(&c.BodyTimeout, DefaultBodyTimeout)
	orDefault(&c.WriteTimeout, DefaultWriteTimeout)
	orDefault(&c.Heartbeat, DefaultHeartbeat)
	orDefault(&c.WaitLimit, DefaultWaitLimit)
	if c.Principal == nil {
		c.Principal = func(*http.Request) (string, bool) { return "", true }
	}
	if c.Alerts == nil {
		c.Alerts = func() Alerts { return nil }
	}
	if c.Observe == nil {
		c.Observe = func(string, int, time.Duration) {}
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

func orDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
