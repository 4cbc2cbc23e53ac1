package rpc

import (
	"cmp"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
)

// Defaults of [Options].
const (
	DefaultMaxRequest    = 4 << 20          // bytes of a request other than Commit
	DefaultMaxParts      = 2_000_000        // writes, conditions, spaces and headers in one request
	DefaultMaxPending    = 512 << 20        // bytes of all requests that are being read or served
	DefaultMaxAnswers    = 512 << 20        // bytes of large records on their way to clients
	DefaultMaxStreams    = 1024             // streams at one time
	DefaultMaxSnapshots  = 64               // snapshots held at one time
	DefaultMaxSessions   = 1024             // sessions at one time
	DefaultSnapshotLease = time.Minute      // how long an unused snapshot is held
	DefaultBodyTimeout   = time.Minute      // for a request to arrive
	DefaultStallTimeout  = 10 * time.Minute // for a client to take the next piece of a response
)

// Options configures [NewHandler]. A nil Options, and fields that are zero (or negative, where
// that has no meaning of its own), mean the defaults.
type Options struct {
	// Token is the token that clients must present as "Authorization: Bearer <token>". If it is
	// empty, everyone who can connect may do everything. [Handler.SetToken] changes it.
	Token string

	// Limits are the limits of the log. They bound the size of a Commit request, and Info returns
	// them. Zero fields mean the defaults of package mainstem.
	Limits mainstem.Limits

	// MaxCommit bounds the size of a Commit request, in bytes. 0 means one and a half times
	// Limits.MaxBatchBytes, for names and for JSON, plus [DefaultMaxRequest].
	MaxCommit int
	// MaxRequest bounds the size of any other request, in bytes; 0 means [DefaultMaxRequest].
	MaxRequest int
	// MaxParts bounds the number of writes, conditions, spaces and headers in one request, which
	// can take far more memory than their bytes; 0 means [DefaultMaxParts].
	MaxParts int
	// MaxPending bounds the bytes of all requests that are being read or served. Further requests
	// wait, up to their deadlines and to BodyTimeout, and then fail with Unavailable. 0 means
	// [DefaultMaxPending].
	MaxPending int64
	// MaxAnswers bounds the memory, in bytes, of large records on their way to clients. A record
	// is large from 64 KiB in a stream, and from 4 KiB in an answer of its own, and takes three
	// times its size. Beyond the bound calls wait, up to their deadlines. Streams that wait keep
	// nothing in memory. Scans that wait fail with Unavailable if there are many. 0 means
	// [DefaultMaxAnswers].
	MaxAnswers int64
	// MaxStreams bounds the number of concurrent scans, reads, feeds, lists, backups and checks.
	// Further ones fail with Unavailable. 0 means [DefaultMaxStreams].
	MaxStreams int
	// MaxSnapshots bounds the number of snapshots held at one time. Further ones fail with
	// Unavailable. 0 means [DefaultMaxSnapshots].
	MaxSnapshots int

	// MaxSessions bounds the number of concurrent sessions. Further ones get the HTTP status 503.
	// 0 means [DefaultMaxSessions].
	MaxSessions int
	// KeepAlive is the time without a frame after which a session asks its client for a sign of
	// life. After the same time again the session ends. 0 means 15 seconds.
	KeepAlive time.Duration

	// Memory is the parent of the budgets for MaxPending and MaxAnswers, and for streams, 256 KiB
	// each, and sessions, 768 KiB each, so that a process that serves several protocols can have
	// one limit. Nil means a budget of the handler that is as large as all of them.
	Memory *budget.Budget

	// SnapshotLease is how long an unused snapshot is held; 0 means [DefaultSnapshotLease].
	SnapshotLease time.Duration
	// BodyTimeout is how long a request may take to arrive; 0 means [DefaultBodyTimeout], a
	// negative value no limit.
	BodyTimeout time.Duration
	// StallTimeout is how long a client may take nothing (of 256 KiB) of a waiting response before it
	// is cut. 0 means [DefaultStallTimeout], a negative value no limit. Followers of package
	// remotelog resume where they were cut.
	StallTimeout time.Duration

	// Compression lets clients send gzip and ask for it. On loopback and in a local network it
	// costs more time than it saves, and a compressed request may expand up to the limits above.
	Compression bool

	// Version and Engine are returned by Info.
	Version, Engine string
	// Logger receives panics of calls; nil means slog.Default().
	Logger *slog.Logger
	// HandlerOptions are passed to the Connect handlers, for interceptors that count or trace.
	// Calls of sessions do not pass through them: see [Handler.SessionStats].
	HandlerOptions []connect.HandlerOption
}

// withDefaults returns a copy of o with defaults for fields that are not set.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	orDefault(&c.MaxRequest, DefaultMaxRequest)
	orDefault(&c.MaxParts, DefaultMaxParts)
	orDefault(&c.MaxPending, DefaultMaxPending)
	orDefault(&c.MaxAnswers, DefaultMaxAnswers)
	orDefault(&c.MaxStreams, DefaultMaxStreams)
	orDefault(&c.MaxSessions, DefaultMaxSessions)
	orDefault(&c.MaxSnapshots, DefaultMaxSnapshots)
	orDefault(&c.SnapshotLease, DefaultSnapshotLease)
	c.Limits = c.Limits.WithDefaults()
	orDefault(&c.MaxCommit, c.Limits.MaxBatchBytes/2*3+DefaultMaxRequest)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, DefaultBodyTimeout)
	c.StallTimeout = cmp.Or(c.StallTimeout, DefaultStallTimeout)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

func orDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
