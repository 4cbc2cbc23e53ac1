package omnibus

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// Prefix is the path below which everything is.
const Prefix = "/objectserver/restapi/"

// The defaults.
const (
	DefaultRealm          = "omnibus"
	DefaultMaxBody        = 64 << 20
	DefaultMaxStatement   = osql.MaxText
	DefaultMaxInsertRows  = 100_000
	DefaultMaxRequests    = 256
	DefaultQueueTimeout   = 5 * time.Second
	DefaultMaxSubscribers = 256
	DefaultTimeout        = 5 * time.Minute
	DefaultWriteTimeout   = 30 * time.Second
	DefaultHeartbeat      = 15 * time.Second
	DefaultCompressFrom   = 256 << 10
)

// Options configures [New]. Nil and zero fields mean the defaults.
type Options struct {
	// Users checks who asks. Nil: nobody is asked for a password, and everybody is an
	// [Admin] under the name that they give, "root" without one.
	Users Authenticator
	// Realm is what clients are told that a password is for. Default [DefaultRealm].
	Realm string
	// MaxBody bounds the bytes of a request's body, also of what it is unpacked to.
	// Default [DefaultMaxBody].
	MaxBody int
	// Memory is what bodies of more than 16 KiB draw from, five times their size, until
	// their requests are answered; without memory for 10 s they are Unavailable. It may be
	// shared. Nil: only MaxBody and MaxRequests bound them.
	Memory *budget.Budget
	// MaxStatement bounds the bytes of the text given to sql/factory, at most
	// [osql.MaxText]. Default [DefaultMaxStatement].
	MaxStatement int
	// MaxInsertRows bounds the rows of one POST. Default [DefaultMaxInsertRows].
	MaxInsertRows int
	// MaxRequests bounds the requests that are served at the same time, feeds aside;
	// those beyond wait up to QueueTimeout. Defaults [DefaultMaxRequests], [DefaultQueueTimeout].
	MaxRequests  int
	QueueTimeout time.Duration
	// MaxSubscribers bounds the change feeds that are open. Default [DefaultMaxSubscribers].
	MaxSubscribers int
	// Timeout is how long a request may take, reading its result included, feeds
	// aside. Default [DefaultTimeout].
	Timeout time.Duration
	// WriteTimeout is how long a client may take nothing of a result that is larger
	// than a buffer, or of a feed. Default [DefaultWriteTimeout].
	WriteTimeout time.Duration
	// Heartbeat is how often a feed without changes sends a comment. Default [DefaultHeartbeat].
	Heartbeat time.Duration
	// CompressFrom is the size of the smallest answer, in bytes, that is sent in gzip to
	// clients that take it; negative: none. Default [DefaultCompressFrom].
	CompressFrom int
	// Logger receives what went wrong inside of the server. Default: discards.
	Logger *slog.Logger
}

// Validate returns an Invalid error that names every field out of range.
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	var errs []error
	for _, f := range []struct {
		name string
		v    int64
	}{
		{"MaxBody", int64(o.MaxBody)}, {"MaxStatement", int64(o.MaxStatement)}, {"MaxInsertRows", int64(o.MaxInsertRows)},
		{"MaxRequests", int64(o.MaxRequests)}, {"QueueTimeout", int64(o.QueueTimeout)}, {"MaxSubscribers", int64(o.MaxSubscribers)},
		{"Timeout", int64(o.Timeout)}, {"WriteTimeout", int64(o.WriteTimeout)}, {"Heartbeat", int64(o.Heartbeat)},
	} {
		if f.v < 0 {
			errs = append(errs, fmt.Errorf("the field Options.%s is %d: want 0 (the default) or more", f.name, f.v))
		}
	}
	if o.MaxStatement > osql.MaxText {
		errs = append(errs, fmt.Errorf("the field Options.MaxStatement is %d: at most %d", o.MaxStatement, osql.MaxText))
	}
	for _, c := range []byte(o.Realm) {
		if c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			errs = append(errs, fmt.Errorf("the field Options.Realm is %q: want printable ASCII without quotes", o.Realm))
			break
		}
	}
	if errs == nil {
		return nil
	}
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "omnibus", Err: errors.Join(errs...)}
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	out.Realm = cmp.Or(out.Realm, DefaultRealm)
	out.MaxBody = cmp.Or(out.MaxBody, DefaultMaxBody)
	out.MaxStatement = cmp.Or(out.MaxStatement, DefaultMaxStatement)
	out.MaxInsertRows = cmp.Or(out.MaxInsertRows, DefaultMaxInsertRows)
	out.MaxRequests = cmp.Or(out.MaxRequests, DefaultMaxRequests)
	out.QueueTimeout = cmp.Or(out.QueueTimeout, DefaultQueueTimeout)
	out.MaxSubscribers = cmp.Or(out.MaxSubscribers, DefaultMaxSubscribers)
	out.Timeout = cmp.Or(out.Timeout, DefaultTimeout)
	out.WriteTimeout = cmp.Or(out.WriteTimeout, DefaultWriteTimeout)
	out.Heartbeat = cmp.Or(out.Heartbeat, DefaultHeartbeat)
	out.CompressFrom = cmp.Or(out.CompressFrom, DefaultCompressFrom)
	out.Logger = cmp.Or(out.Logger, slog.New(slog.DiscardHandler))
	return out
}
