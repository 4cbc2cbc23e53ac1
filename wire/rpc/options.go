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
	DefaultMaxRequest    = 4 << 20          // bytes in any request but Commit
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

// Options configures [NewHandler]. Nil and fields that are zero, or negative where no
// meaning is given to that, mean the defaults.
type Options struct {
	// Token is what a client must present as "Authorization: Bearer <token>". Empty
	// means that everyone who can connect may do everything. [Handler.SetToken] changes it.
	Token string

	// Limits are those of the log: they size what a Commit request may hold, and
	// Info shows them. Zero fields mean the defaults of package mainstem.
	Limits mainstem.Limits

	// MaxCommit bounds the bytes of a Commit request; 0 means half more than
	// Limits.MaxBatchBytes, for names and for JSON, and [DefaultMaxRequest].
	MaxCommit int
	// MaxRequest bounds the bytes of any other request; 0 means [DefaultMaxRequest].
	MaxRequest int
	// MaxParts bounds how many writes, conditions, spaces and headers one request may
	// hold, which would take far more memory than bytes; 0 means [DefaultMaxParts].
	MaxParts int
	// MaxPending bounds the bytes of all requests that are being read or served. What
	// comes on top waits, up to its deadline and to BodyTimeout, and then is Unavailable.
	// 0 means [DefaultMaxPending].
	MaxPending int64
	// MaxAnswers bounds the memory of large records (64 KiB and more in a stream, 4 KiB and
	// more in an answer of its own) on their way to clients, which is three times their
	// size. Beyond it calls wait, up to their deadlines. A stream that waits keeps nothing
	// in memory; scans that wait are Unavailable if there are many. 0 means
	// [DefaultMaxAnswers].
	MaxAnswers int64
	// MaxStreams bounds the scans, reads, feeds, lists, backups and checks at one
	// time; what comes on top is Unavailable. 0 means [DefaultMaxStreams].
	MaxStreams int
	// MaxSnapshots bounds the snapshots held at one time; what comes on top is
	// Unavailable. 0 means [DefaultMaxSnapshots].
	MaxSnapshots int

	// MaxSessions bounds the sessions at one time; what comes on top gets the HTTP status 503.
	// 0 means [DefaultMaxSessions].
	MaxSessions int
	// KeepAlive is after how long without a frame a session's client is asked for a sign of
	// life; after as long again the session ends. 0 means 15 seconds.
	KeepAlive time.Duration

	// Memory is what MaxPending, MaxAnswers and the memory of streams, 256 KiB each, and of
	// sessions, 768 KiB each, are taken from, so that a process that serves several protocols has one limit. Nil means
	// one of the handler's own that is as large as all of them.
	Memory *budget.Budget

	// SnapshotLease is how long a snapshot is held that nobody uses; 0 means
	// [DefaultSnapshotLease].
	SnapshotLease time.Duration
	// BodyTimeout is how long a request may take to arrive; 0 means
	// [DefaultBodyTimeout], negative no limit.
	BodyTimeout time.Duration
	// StallTimeout is how long a client may take nothing of a response that waits
	// for it, before the stream is cut; 0 means [DefaultStallTimeout], negative no
	// limit. Followers of package remotelog resume where they were cut.
	StallTimeout time.Duration

	// Compression lets clients send and ask for gzip. It costs more time than it
	// saves on loopback and in a local network, and a compressed request may expand
	// to the limits above.
	Compression bool

	// Version and Engine are shown by Info.
	Version, Engine string
	// Logger gets panics of calls; nil means slog.Default().
	Logger *slog.Logger
	// HandlerOptions go to the Connect handlers, for interceptors that count or trace. Calls of
	// sessions do not pass them: see [Handler.SessionStats].
	HandlerOptions []connect.HandlerOption
}

// withDefaults returns a copy of o with fields that are not set replaced.
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
