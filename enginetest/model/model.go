package model

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// Options configures [New]. Nil and zero fields mean the defaults.
type Options struct {
	// Now is the clock; nil means time.Now. Times of records never decrease, whatever it
	// shows.
	Now func() time.Time
	// Monotonic is the time since some fixed moment by a clock that nobody sets, by which
	// jumps of Now are noticed; nil means the monotonic readings of Now's times.
	Monotonic func() time.Duration
	// Limits bounds batches; zero fields mean the defaults of package mainstem.
	Limits mainstem.Limits
}

// Log is an in-memory [mainstem.Log]. It also offers [mainstem.Snapshotter],
// [mainstem.Checker] and [mainstem.ClockKeeper].
type Log struct {
	opts   Options
	clock  *wallclock.Clock
	limits mainstem.Limits
	done   chan struct{} // closed by Close

	mu struct {
		sync.Mutex
		state
		closed   bool
		setBacks uint64                      // how often the clock was found set back
		receipts map[string]mainstem.Receipt // by batch ID
		changed  chan struct{}               // closed and replaced whenever followers must look again
		nextID   uint64                      // identity of the next space
	}
}

// New returns an empty log.
func New(o *Options) *Log {
	if o == nil {
		o = &Options{}
	}
	l := &Log{opts: *o, limits: o.Limits.WithDefaults(), done: make(chan struct{})}
	l.clock = wallclock.New(wallclock.Options{Now: o.Now, Monotonic: o.Monotonic, Logger: slog.New(slog.DiscardHandler)})
	l.mu.readings = map[mainstem.Position]int64{}
	l.mu.spaces = map[string]*space{}
	l.mu.receipts = map[string]mainstem.Receipt{}
	l.mu.changed = make(chan struct{})
	return l
}

// Close stops followers with Closed and fails all later calls. It frees nothing
// that a running call still needs, so it waits for none.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.mu.closed {
		l.mu.closed = true
		close(l.done)
	}
	return nil
}

// Reopen returns a new log that holds what l held when it was closed, as opening
// a directory again would. It panics if l is not closed.
func (l *Log) Reopen() *Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.mu.closed {
		panic("model: Reopen of a log that is not closed")
	}
	out := New(&l.opts)
	out.mu.state = l.mu.clone()
	out.mu.nextID = l.mu.nextID
	out.mu.receipts = maps.Clone(l.mu.receipts)
	return out
}

// Head returns the position of the newest record of the log.
func (l *Log) Head(ctx context.Context) (mainstem.Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(ctx, "head"); err != nil {
		return 0, err
	}
	return l.mu.head, nil
}

func (l *Log) usableLocked(ctx context.Context, op string) error {
	if l.mu.closed {
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: op}
	}
	if ctx.Err() != nil {
		return canceledError(op, ctx)
	}
	return nil
}

// wakeLocked makes every follower look again.
func (l *Log) wakeLocked() {
	close(l.mu.changed)
	l.mu.changed = make(chan struct{})
}

func canceledError(op string, ctx context.Context) *mainstem.Error {
	return mainstem.Ended(ctx, op, time.Time{}, "")
}

// notWritten marks err, the error of a call that writes, as having written nothing.
func notWritten(err error) error {
	if e, ok := err.(*mainstem.Error); ok {
		e.Outcome = mainstem.NotWritten
	}
	return err
}
