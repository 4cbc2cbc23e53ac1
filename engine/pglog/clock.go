package pglog

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// clock is what a process knows of the clock of its log. File sql/clock.sql says what
// the tables keep and how records are judged.
//
// Unless Options give a clock it is that of the server. The process watches it against its
// own monotonic clock: it asks for the time before every sweep and in between lets its own
// clock go on. With every call it says what it expects (see [clock.reading]), and the
// server goes at most a second beyond that. So a jump forward has no effect before it was
// noticed. That the clock went back is believed at once, as package wallclock does.
//
// A jump forward is first a hold of the wall clock under watch, then published in the
// tables, so that all processes judge by it. Until it is published, the process goes by
// the time without the jump.
type clock struct {
	*wallclock.Clock
	server    *serverClock                   // nil: Options.Now is the clock
	published atomic.Pointer[wallclock.Hold] // nil: none
	setBacks  atomic.Int64                   // of the log since it was opened
	mu        struct {
		sync.Mutex       // held while a hold is published
		first      int64 // the log's count of set-backs when it was opened
	}
}

// serverClock goes on from what the server's clock showed last.
type serverClock struct {
	base   time.Time
	offset atomic.Int64 // from the monotonic clock to the server's, ns
	mu     struct {
		sync.Mutex               // held while offset changes
		sent       time.Duration // when the newest answer that counts was asked for
	}
}

func (s *serverClock) monotonic() time.Duration { return time.Since(s.base) }

func (s *serverClock) now() time.Time {
	return time.Unix(0, s.offset.Load()+int64(s.monotonic()))
}

// observe takes into account that the server's clock showed tick at some moment between
// sent and received. An answer that was asked for before the newest one is out of date: the
// clock may have been set in between.
func (s *serverClock) observe(tick int64, sent, received time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent < s.mu.sent {
		return
	}
	s.mu.sent = sent
	s.offset.Store(min(max(s.offset.Load(), tick-int64(received)), tick-int64(sent)))
}

// openClock begins to watch the clock. It ends a hold that is left if no other process
// has the log open.
func (l *Log) openClock(ctx context.Context, c *pgx.Conn) error {
	o := wallclock.Options{Now: l.opts.Now, Monotonic: l.opts.Monotonic, Logger: l.opts.Logger, Changed: l.clockChanged}
	if o.Now == nil {
		s := &serverClock{base: time.Now()}
		for range 3 { // the quickest answer says most
			if err := l.askTime(ctx, c, s); err != nil {
				return err
			}
		}
		l.clock.server = s
		o.Now, o.Monotonic = s.now, s.monotonic
	}
	l.clock.Clock = wallclock.New(o)
	state, err := l.clockRow(ctx, c)
	if err != nil {
		return err
	}
	l.clock.mu.first = state.setBacks
	if state.ahead == 0 {
		return nil
	}
	return l.endHold(ctx, c)
}

// presenceWait is how long Open waits for connections that are being closed.
const presenceWait = 2 * time.Second

// endHold accepts the clock unless another process has the log open: its hold goes on.
func (l *Log) endHold(ctx context.Context, c *pgx.Conn) error {
	others := fmt.Sprintf(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid = %d AND objid = %d AND objsubid = 2`,
		uint32(lockPresent), uint32(l.dialect.id))
	for deadline := time.Now().Add(presenceWait); ; {
		var n int
		if err := c.QueryRow(ctx, others).Scan(&n); err != nil {
			return err
		}
		if n == 0 {
			_, err := c.Exec(ctx, l.dialect.sql(acceptClock))
			return err
		}
		if time.Now().After(deadline) {
			l.opts.Logger.Warn("the clock jumped forward while another process had the log open: nothing expires by the jump until it is accepted (mainstem clock accept)")
			return nil
		}
		if !backoff.Sleep(ctx, 20*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

const acceptClock = "UPDATE {schema}.log SET boundary = 0, ahead = 0 WHERE ahead > 0"

// clockChanged has the sweeper look at the clock.
func (l *Log) clockChanged() {
	if l.sweeper != nil {
		l.sweeper.expiresAt(l.clock.now())
	}
}

// rowQuerier is a connection or a pool of them.
type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// askTime asks for the time of the server.
func (l *Log) askTime(ctx context.Context, c rowQuerier, s *serverClock) error {
	var tick int64
	sent := s.monotonic()
	if err := c.QueryRow(ctx, l.dialect.sql("SELECT {schema}.tick(NULL)")).Scan(&tick); err != nil {
		return err
	}
	s.observe(tick, sent, s.monotonic())
	return nil
}

// now returns the time, unix ns, that this process goes by.
func (c *clock) now() int64 {
	now := c.Now()
	if h := c.Hold(); h != c.published.Load() {
		return h.Trusted(now)
	}
	return now
}

// reading returns the time as the function tick takes it.
func (c *clock) reading() int64 {
	if c.server != nil {
		return -c.now()
	}
	return c.now()
}

// checkClock looks at the server's clock and publishes a jump.
func (l *Log) checkClock(ctx context.Context) error {
	ctx, end, err := l.begin(ctx, "clock")
	if err != nil {
		return err
	}
	defer end()
	if s := l.clock.server; s != nil {
		err = l.askTime(ctx, l.reads, s)
	}
	if err == nil {
		err = l.publishHold(ctx)
	}
	return l.mapError(ctx, "clock", err)
}

// publishHold publishes that a hold has begun or ended, if that is news.
func (l *Log) publishHold(ctx context.Context) error {
	c := &l.clock
	now := c.Now()
	if c.Hold() == c.published.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.Hold()
	if h == c.published.Load() {
		return nil
	}
	var boundary, ahead int64
	if h != nil {
		boundary, ahead = h.Boundary, h.Ahead
	}
	if _, err := l.reads.Exec(ctx, l.dialect.sql("SELECT {schema}.hold($1, $2, $3)"), now, boundary, ahead); err != nil {
		return err
	}
	c.published.Store(h)
	return nil
}

// clockRow is what the log knows of its clock.
type clockRow struct{ newest, boundary, ahead, setBacks int64 }

func (l *Log) clockRow(ctx context.Context, c rowQuerier) (r clockRow, err error) {
	err = c.QueryRow(ctx, l.dialect.sql("SELECT clock, boundary, ahead, set_backs FROM {schema}.log")).
		Scan(&r.newest, &r.boundary, &r.ahead, &r.setBacks)
	return r, err
}

// learn takes into account what processes have found: that the clock was set back, and
// that a hold has ended which this process had published before r was read.
func (l *Log) learn(r clockRow, published *wallclock.Hold) {
	c := &l.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := r.setBacks - c.mu.first; n > c.setBacks.Load() {
		c.setBacks.Store(n)
		l.opts.Logger.Warn("the clock was set back: records written while it was ahead expire as if they were written now",
			"was", unixTime(r.newest).UTC(), "now", unixTime(c.Now()).UTC())
	}
	if published != nil && r.ahead == 0 && published == c.Hold() {
		c.Accept()
		c.published.Store(nil)
	}
}

// Clock implements [mainstem.ClockKeeper]. Without [Options.Now] the clock is that of the
// server, and a jump that another process has noticed counts as well.
func (l *Log) Clock(ctx context.Context) (mainstem.ClockState, error) {
	if err := l.checkClock(ctx); err != nil {
		return mainstem.ClockState{}, err
	}
	ctx, end, err := l.begin(ctx, "clock")
	if err != nil {
		return mainstem.ClockState{}, err
	}
	defer end()
	published := l.clock.published.Load()
	r, err := l.clockRow(ctx, l.reads)
	if err != nil {
		return mainstem.ClockState{}, l.mapError(ctx, "clock", err)
	}
	l.learn(r, published)
	now := l.clock.Now()
	jumps, _ := l.clock.Events()
	s := mainstem.ClockState{Now: unixTime(now).UTC(), Held: time.Duration(r.ahead), Jumps: jumps, SetBacks: uint64(l.clock.setBacks.Load())}
	if r.newest > now {
		s.TimesAhead = time.Duration(r.newest - now)
	}
	return s, nil
}

// AcceptClock implements [mainstem.ClockKeeper], for all processes that have the log open.
// What has expired by the clock is removed soon.
func (l *Log) AcceptClock(ctx context.Context) (mainstem.ClockState, error) {
	s, err := l.Clock(ctx)
	if err != nil {
		return s, err
	}
	ctx, end, err := l.begin(ctx, "accept clock")
	if err != nil {
		return s, err
	}
	defer end()
	published := l.clock.published.Load()
	if _, err := l.reads.Exec(ctx, l.dialect.sql(acceptClock)); err != nil {
		return s, l.mapError(ctx, "accept clock", err)
	}
	l.learn(clockRow{}, published)
	l.clockChanged()
	return s, nil
}
