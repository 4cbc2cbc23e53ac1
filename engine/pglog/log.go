package pglog

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/redact"
)

// Log is a log in a PostgreSQL database. It implements [mainstem.Log],
// [mainstem.Snapshotter], [mainstem.Checker] and [mainstem.ClockKeeper]. Open it with [Open].
type Log struct {
	view
	opts    Options
	dialect dialect
	sql     statements
	server  serverSettings

	reads   *pgxpool.Pool // for short reads and administration
	commits *pgxpool.Pool // one connection, so that readers cannot keep commits waiting
	held    *pgxpool.Pool // for snapshots and long scans

	clock     clock
	committer committer
	known     known
	pace      pace
	hub       *hub
	sweeper   *sweeper
	holders   holders
	calls     calls

	closing   atomic.Bool
	closeOnce sync.Once
	life      context.Context // ends every call; done when Close has waited long enough
	kill      context.CancelFunc
}

var (
	_ mainstem.Log         = (*Log)(nil)
	_ mainstem.Snapshotter = (*Log)(nil)
	_ mainstem.Checker     = (*Log)(nil)
	_ mainstem.ClockKeeper = (*Log)(nil)
)

// closeGrace is how long Close waits for running calls before it cuts their connections.
const closeGrace = 5 * time.Second

// serverSettings are what the server is configured to do.
type serverSettings struct {
	walDelay time.Duration // wal_writer_delay
}

// Open opens the log in the database at url, as in postgres://user@host:5432/database or
// in the form "host=... dbname=..."; see [pgx.ParseConfig]. Unless [Options.MustExist] it
// makes the tables if the schema has none; it brings those of an older version to the
// newest format, one process at a time. Open fails with Unavailable if nobody answers,
// Denied without the rights, Unsupported on a server older than 14 or with another
// encoding than UTF-8, Invalid if the tables were made by a newer version.
//
// ctx bounds the call of Open only. A password in url does not show up in errors.
func Open(ctx context.Context, url string, o *Options) (*Log, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	opts := o.withDefaults()
	l := &Log{opts: opts, dialect: newDialect(opts.Schema), holders: holders{open: map[*holder]struct{}{}}}
	l.sql = newStatements(l.dialect)
	l.life, l.kill = context.WithCancel(context.WithoutCancel(ctx))
	l.calls.idle = make(chan struct{})
	l.view = view{l: l, on: poolSource{l}}
	began := time.Now()
	if err := l.open(ctx, url); err != nil {
		l.kill()
		l.closePools()
		if ctx.Err() != nil {
			return nil, mainstem.Ended(ctx, "open", began, "an answer of PostgreSQL")
		}
		return nil, l.mapError(ctx, "open", redact.Error(err, url))
	}
	l.hub = newHub(l)
	startSweeper(l)
	l.committer.start(l)
	return l, nil
}

func (l *Log) open(ctx context.Context, url string) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "open", Err: redact.Error(err, url)}
	}
	config.AfterConnect = l.afterConnect
	for _, p := range []struct {
		pool  **pgxpool.Pool
		conns int
	}{{&l.reads, l.opts.Conns}, {&l.commits, 1}, {&l.held, l.opts.HeldConns}} {
		c := config.Copy()
		c.MaxConns, c.MinConns, c.MinIdleConns = int32(p.conns), 0, 0
		if *p.pool, err = pgxpool.NewWithConfig(l.life, c); err != nil {
			return err
		}
	}
	c, err := l.commits.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	if err := l.prepare(ctx, c.Conn()); err != nil {
		return err
	}
	var ms float64
	if err := c.QueryRow(ctx, "SELECT extract(epoch FROM current_setting('wal_writer_delay')::interval) * 1000").Scan(&ms); err != nil {
		return err
	}
	l.server.walDelay = time.Duration(ms * float64(time.Millisecond))
	return l.openClock(ctx, c.Conn())
}

// afterConnect gives a connection the settings that the engine relies on. A default of
// synchronous_commit=off would break law 3; stronger ones than on are left alone.
func (l *Log) afterConnect(ctx context.Context, c *pgx.Conn) error {
	text := `SELECT set_config('default_transaction_isolation', 'read committed', false), set_config('statement_timeout', '0', false),
		set_config('lock_timeout', '0', false), set_config('idle_in_transaction_session_timeout', '0', false),
		set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)`
	for _, s := range settings {
		text += ", set_config('" + s[0] + "', '" + s[1] + "', false)"
	}
	text += ", pg_advisory_lock_shared(" + l.dialect.lock(lockPresent) + ")"
	_, err := c.PgConn().Exec(ctx, text).ReadAll()
	return err
}

// Close implements [mainstem.Log]. What the server was given goes on there; connections
// are closed. It waits a few seconds for calls that the server does not answer.
func (l *Log) Close() error {
	l.closeOnce.Do(func() {
		l.sweeper.cancel() // before a sweep finds the log closed, which it would report
		l.closing.Store(true)
		grace := time.AfterFunc(closeGrace, l.kill)
		defer grace.Stop()
		l.sweeper.stop()
		l.committer.close()
		l.hub.close()
		l.calls.close()
		l.holders.closeAll()
		l.kill()
		l.closePools()
	})
	return nil
}

func (l *Log) closePools() {
	for _, p := range []*pgxpool.Pool{l.reads, l.commits, l.held} {
		if p != nil {
			p.Close()
		}
	}
}

// begin starts a call: ctx ends it, and so does the end of the log. The caller calls
// end when it is done with the connection.
func (l *Log) begin(ctx context.Context, op string) (_ context.Context, end func(), err error) {
	if l.closing.Load() || !l.calls.begin() {
		return nil, nil, &mainstem.Error{Kind: mainstem.KindClosed, Op: op}
	}
	if ctx.Err() != nil {
		l.calls.end()
		return nil, nil, mainstem.Ended(ctx, op, time.Time{}, "")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.life, func() { cancel(errClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		l.calls.end()
	}, nil
}

var errClosed = errors.New("the log was closed")

// calls counts the calls under way, so that Close can wait for them.
type calls struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when closed and n is 0
}

func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.n++
	return true
}

func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 && c.closed {
		close(c.idle)
	}
}

func (c *calls) close() {
	c.mu.Lock()
	c.closed = true
	if c.n == 0 {
		close(c.idle)
	}
	c.mu.Unlock()
	<-c.idle
}
