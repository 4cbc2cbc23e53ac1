package pglog

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// sweeper removes from the tables what readers no longer see: records whose time to live
// is over, records beyond the age and size limits of their space, what dropped spaces
// left behind, and batch IDs that need not be remembered. Every process that has the log
// open sweeps; they take turns. It works in small transactions so that commits are not
// held up for long.
type sweeper struct {
	l      *Log
	wake   chan struct{} // capacity 1
	cancel context.CancelFunc
	done   chan struct{}
	// next is the earliest expiry known, unix ns; 0: none. What is committed before it is
	// set to 0 is found by the query that follows; what is committed later lowers it.
	next atomic.Int64
}

// sweepPause is the least time between two sweeps, also if the clocks of this machine and
// the server differ.
const sweepPause = 5 * time.Millisecond

// sweepChunk is how many records of a kind one transaction removes.
const sweepChunk = 256

func startSweeper(l *Log) {
	ctx, cancel := context.WithCancel(l.life)
	l.sweeper = &sweeper{l: l, wake: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{})}
	go l.sweeper.run(ctx)
}

// expiresAt tells the sweeper of a record that expires at the time at, unix ns.
func (s *sweeper) expiresAt(at int64) {
	for {
		next := s.next.Load()
		if next != 0 && at >= next {
			return
		}
		if s.next.CompareAndSwap(next, at) {
			s.poke()
			return
		}
	}
}

func (s *sweeper) poke() {
	wake.Signal(s.wake)
}

func (s *sweeper) stop() {
	s.cancel()
	<-s.done
}

func (s *sweeper) run(ctx context.Context) {
	defer close(s.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
			timer.Reset(s.wait()) // it may have to be sooner
			continue
		case <-timer.C:
		}
		if err := s.l.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.l.opts.Logger.Warn("removing expired records failed; it will be tried again", "error", err)
		}
		timer.Reset(s.wait())
	}
}

// wait returns how long the sweeper may sleep.
func (s *sweeper) wait() time.Duration {
	now := s.l.clock.now() // may call expiresAt
	next := s.next.Load()
	if next == 0 {
		return s.l.opts.SweepEvery
	}
	return min(max(time.Duration(next-now), sweepPause), s.l.opts.SweepEvery)
}

// Sweep removes now what has expired or exceeds the limits of its space. The engine does
// so by itself; tests and operators call it to be sure.
func (l *Log) Sweep(ctx context.Context) error {
	if err := l.checkClock(ctx); err != nil {
		return err
	}
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{"SELECT {schema}.sweep_clock($1, $2)", []any{sweepChunk * 4}},
		{"SELECT {schema}.sweep_expired($1, $2)", []any{sweepChunk}},
		{"SELECT {schema}.sweep_spaces($1, $2, $3)", []any{int64(mainstem.DefaultTombstoneAge), sweepChunk}},
		{"SELECT {schema}.sweep_remains($1, $2, $3)", []any{int64(l.opts.BatchIDAge), sweepChunk * 4}},
	} {
		for n := 1; n > 0; {
			var err error
			if n, err = l.sweepOnce(ctx, l.dialect.sql(step.sql), step.args); err != nil {
				return err
			}
		}
	}
	return l.sweepNext(ctx)
}

func (l *Log) sweepOnce(ctx context.Context, sql string, args []any) (n int, err error) {
	ctx, end, err := l.begin(ctx, "sweep")
	if err != nil {
		return 0, err
	}
	defer end()
	err = l.atReading(ctx, func(q rowQuerier, now *int64) error {
		return q.QueryRow(ctx, sql, append([]any{now}, args...)...).Scan(&n)
	})
	if errors.Is(err, errClockMoved) {
		return 1, nil // again
	}
	if n > 0 {
		l.hub.announceAll(0) // some may be tombstones
	}
	return n, l.mapError(ctx, "sweep", err)
}

// errClockMoved says that the clock was set while a statement was on its way.
var errClockMoved = errors.New("the clock was set meanwhile")

// atReading calls f to send one statement that removes what has ended at the reading now.
//
// A reading of the server's clock is an expectation, which the server compares with its clock
// (see tick). One of Options.Now is taken as it is, so the statement must not be carried out
// if that clock was set after it was read: a commit at the time after it may have come
// between, and then records that live would be removed. It is rolled back, with the error
// errClockMoved. The look at the clock is made when the statement has its place in the order.
func (l *Log) atReading(ctx context.Context, f func(q rowQuerier, now *int64) error) error {
	c := &l.clock
	if c.server != nil {
		return f(l.reads, poolSource{l}.moment())
	}
	before, hold := c.Now(), c.published.Load()
	now := poolSource{l}.moment()
	return pgx.BeginFunc(ctx, l.reads, func(tx pgx.Tx) error {
		if err := f(tx, now); err != nil {
			return err
		}
		if d := c.Now() - before; d < -int64(wallclock.MaxBack) || d > int64(wallclock.MaxBack) || c.published.Load() != hold {
			return errClockMoved
		}
		return nil
	})
}

// sweepNext finds out when something expires next, by this process or another.
func (l *Log) sweepNext(ctx context.Context) error {
	ctx, end, err := l.begin(ctx, "sweep")
	if err != nil {
		return err
	}
	defer end()
	var next *int64
	var state clockRow
	published := l.clock.published.Load()
	known := l.sweeper.next.Swap(0)
	const text = "SELECT l.clock, l.boundary, l.ahead, l.set_backs, (SELECT min(r.expires) FROM {schema}.record r) FROM {schema}.log l"
	if err := l.reads.QueryRow(ctx, l.dialect.sql(text)).Scan(&state.newest, &state.boundary, &state.ahead, &state.setBacks, &next); err != nil {
		if known != 0 {
			l.sweeper.expiresAt(known)
		}
		return l.mapError(ctx, "sweep", err)
	}
	l.learn(state, published)
	if next != nil {
		l.sweeper.expiresAt(*next + min(state.ahead, math.MaxInt64-*next))
	}
	return nil
}
