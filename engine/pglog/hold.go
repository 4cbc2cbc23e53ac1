package pglog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mainstemdev/mainstem"
)

// holder is a connection in a transaction that sees the log at one moment.
type holder struct {
	l   *Log
	now int64
	mu  struct {
		sync.Mutex
		conn *pgxpool.Conn // nil once it is released
		tx   pgx.Tx
	}
}

// holders are those that are not released: Close of the log does it.
type holders struct {
	sync.Mutex
	open map[*holder]struct{}
}

func (o *holders) closeAll() {
	o.Lock()
	var all []*holder
	for h := range o.open {
		all = append(all, h)
	}
	o.Unlock()
	for _, h := range all {
		h.release()
	}
}

// holdWait is how long a read waits for a connection to hold. Loops may hold one each
// and wait for another: waiting without end could be just that.
const holdWait = 2 * time.Second

// hold begins a transaction at this moment.
func (l *Log) hold(ctx context.Context, op string) (*holder, error) {
	ctx, end, err := l.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer end()
	wait, cancel := context.WithTimeout(ctx, holdWait)
	defer cancel()
	conn, err := l.held.Acquire(wait)
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return nil, mainstem.Errorf(mainstem.KindUnavailable, op, "all %d connections for snapshots and long scans are in use", l.opts.HeldConns).
				WithHint("close snapshots, or raise HeldConns")
		}
		return nil, l.mapError(ctx, op, err)
	}
	h := &holder{l: l}
	h.mu.conn = conn
	h.mu.tx, err = conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err == nil {
		err = h.mu.tx.QueryRow(ctx, l.dialect.sql("SELECT {schema}.tick($1)"), poolSource{l}.moment()).Scan(&h.now)
	}
	if err != nil {
		conn.Release() // the pool drops a connection with an open transaction
		return nil, l.mapError(ctx, op, err)
	}
	l.holders.Lock()
	defer l.holders.Unlock()
	l.holders.open[h] = struct{}{}
	return h, nil
}

func (h *holder) view() view { return view{l: h.l, on: h, frozen: true} }

// query implements source. The end of ctx does not interrupt a statement, only keeps the
// next from starting: it would end the transaction, and what others read with it.
func (h *holder) query(ctx context.Context, op string, fill func(pgx.Rows) error, sql string, args ...any) error {
	if ctx.Err() != nil {
		return mainstem.Ended(ctx, op, time.Time{}, "")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.conn == nil {
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: op}
	}
	life, end, err := h.l.begin(h.l.life, op)
	if err != nil {
		return err
	}
	defer end()
	rows, err := h.mu.tx.Query(life, sql, append([]any{pgx.QueryResultFormats(binaryFormat)}, args...)...)
	if err == nil {
		err = fill(rows)
		rows.Close()
	}
	return h.l.mapError(life, op, err)
}

// exact implements source.
func (h *holder) exact() bool { return true }

// moment implements source.
func (h *holder) moment() *int64 { return &h.now }

// release ends the transaction, when the statement under way has ended.
func (h *holder) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.conn == nil {
		return
	}
	_ = h.mu.tx.Rollback(h.l.life) // it has changed nothing; the pool drops the connection if this fails
	h.mu.conn.Release()
	h.mu.conn = nil
	h.l.holders.Lock()
	defer h.l.holders.Unlock()
	delete(h.l.holders.open, h)
}

// Snapshot implements [mainstem.Snapshotter]. It holds a connection and, in PostgreSQL,
// every version of every row since: while it is open nothing is vacuumed, and commits
// slow down. Keep it open for minutes, not for hours.
func (l *Log) Snapshot(ctx context.Context) (mainstem.Snapshot, error) {
	h, err := l.hold(ctx, "snapshot")
	if err != nil {
		return nil, err
	}
	return &Snapshot{view: h.view(), h: h}, nil
}

// Snapshot is the log at one moment. It implements [mainstem.Snapshot].
type Snapshot struct {
	view
	h *holder
}

// Close gives the connection back. Close of the log does it for snapshots left open.
func (s *Snapshot) Close() error {
	s.h.release()
	return nil
}

// canFollow returns an Unsupported error for following what does not change.
func (v view) canFollow(op string, follow bool) error {
	if !follow || !v.frozen {
		return nil
	}
	return mainstem.Errorf(mainstem.KindUnsupported, op, "a snapshot does not change: Follow would wait without end")
}
