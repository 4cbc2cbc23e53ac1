package pglog

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// hub wakes the readers that wait for a space, and only those: at once for commits of
// this process, and for those of others when PostgreSQL notifies its listener.
type hub struct {
	l      *Log
	ctx    context.Context // ends when the hub is closed
	cancel context.CancelFunc
	wg     sync.WaitGroup
	set    wake.Set[string, *follower] // by space
	mu     struct {
		sync.Mutex
		closed bool
		tried  chan struct{} // closed after the first attempt to listen; nil: nobody has followed yet
	}
}

// follower is one waiting reader. A wake-up means: look again.
type follower struct {
	h      *hub
	wake   chan struct{} // capacity 1
	spaces []string      // nil: all
	seen   atomic.Int64  // nothing up to here is news
	calm   bool          // it has reached the server: it survives that it is lost
	tries  int           // without success since it read last
}

func newHub(l *Log) *hub {
	h := &hub{l: l}
	h.ctx, h.cancel = context.WithCancel(l.life)
	return h
}

// subscribe registers a follower. The caller looks at the log after it, so that nothing
// committed in between is missed, and calls unsubscribe when done.
func (h *hub) subscribe(ctx context.Context, op string, spaces []string) (*follower, error) {
	f := &follower{h: h, wake: make(chan struct{}, 1), spaces: spaces}
	h.mu.Lock()
	if h.mu.closed {
		h.mu.Unlock()
		return nil, &mainstem.Error{Kind: mainstem.KindClosed, Op: op}
	}
	h.set.Add(f, spaces)
	if h.mu.tried == nil {
		h.mu.tried = make(chan struct{})
		h.wg.Add(1)
		go h.listen(h.mu.tried)
	}
	tried := h.mu.tried
	h.mu.Unlock()
	began := time.Now()
	select {
	case <-tried:
		return f, nil
	case <-ctx.Done():
		h.unsubscribe(f)
		return nil, mainstem.Ended(ctx, op, began, "PostgreSQL to notify of commits")
	case <-h.ctx.Done():
		h.unsubscribe(f)
		return nil, &mainstem.Error{Kind: mainstem.KindClosed, Op: op}
	}
}

func (h *hub) unsubscribe(f *follower) { h.set.Remove(f, f.spaces) }

// announce wakes those who follow one of the spaces and have not seen last yet; a last
// of 0 is news for all of them.
func (h *hub) announce(last int64, spaces []string) {
	for _, name := range spaces {
		h.set.Wake(name, func(f *follower) { f.signal(last) })
	}
}

// announceAll wakes everybody.
func (h *hub) announceAll(last int64) {
	h.set.WakeAll(func(_ string, f *follower) { f.signal(last) })
}

func (f *follower) signal(last int64) {
	if last == 0 || last > f.seen.Load() {
		wake.Signal(f.wake)
	}
}

// saw says up to where the follower has read.
func (f *follower) saw(position int64) { f.seen.Store(position) }

// reached says that the server has answered. A read that does not follow has no follower.
func (f *follower) reached() {
	if f != nil {
		f.calm = true
	}
}

// read says that something was read, if only that there is nothing.
func (f *follower) read() {
	if f != nil {
		f.calm, f.tries = true, 0
	}
}

// wait returns when there may be news.
func (f *follower) wait(ctx context.Context, op string) error {
	began := time.Now()
	select {
	case <-f.wake:
		return nil
	case <-ctx.Done():
		return mainstem.Ended(ctx, op, began, "records")
	case <-f.h.ctx.Done():
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: op}
	}
}

// survives reports whether a follower goes on after an error, and pauses then: the server
// has answered before, and may come back.
func (f *follower) survives(ctx context.Context, err error) bool {
	if f == nil || !f.calm || !errors.Is(err, mainstem.ErrUnavailable) {
		return false
	}
	f.tries++
	backoff.SleepOr(ctx, f.h.ctx.Done(), retryPolicy.Delay(f.tries))
	return true // the next read finds out whether ctx or the log has ended
}

// close ends all waits, also later ones, and the listener.
func (h *hub) close() {
	h.mu.Lock()
	h.mu.closed = true
	h.mu.Unlock()
	h.cancel()
	h.wg.Wait()
}

// listen keeps a connection that listens. While there is none, followers are woken every
// Options.PollEvery instead.
func (h *hub) listen(tried chan struct{}) {
	defer h.wg.Done()
	ctx := h.ctx
	var once sync.Once
	attempted := func() { once.Do(func() { close(tried) }) }
	defer attempted()
	var looked time.Time
	for {
		err := h.receive(ctx, attempted)
		attempted()
		if ctx.Err() != nil {
			return
		}
		h.l.opts.Logger.Warn("the connection that listens for new records is lost: followers look from time to time until it is back", "error", err)
		every := h.l.opts.PollEvery
		if time.Since(looked) >= every {
			h.announceAll(0)
			looked = time.Now()
		}
		backoff.Sleep(ctx, min(time.Until(looked.Add(every)), listenAgain))
	}
}

// How long a listener waits before it asks whether its connection still works, and how
// long it waits for the answer and for a new connection.
const (
	listenQuiet   = 30 * time.Second
	listenTimeout = 10 * time.Second
	listenAgain   = 2 * time.Second // before it connects again, at most
)

// receive connects, listens and passes notifications on until the connection is lost.
func (h *hub) receive(ctx context.Context, ready func()) error {
	c, err := h.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		// The server frees the lock when it finds the connection closed, if not before.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.Close(end) // it is of no use any more, whatever it says
	}()
	ready()
	h.announceAll(0) // what was committed while nobody listened
	for {
		quiet, cancel := context.WithTimeout(ctx, listenQuiet)
		n, err := c.WaitForNotification(quiet)
		cancel()
		switch {
		case err == nil:
			h.heard(n.Payload)
		case ctx.Err() != nil || quiet.Err() == nil:
			return err
		default:
			ping, cancel := context.WithTimeout(ctx, listenTimeout)
			err := c.Ping(ping)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

// connect opens a connection that listens. First it takes the lock that makes commits
// notify: it waits for the commit under way, which may have seen that nobody listens.
func (h *hub) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	c, err := pgx.ConnectConfig(ctx, h.l.reads.Config().ConnConfig)
	if err != nil {
		return nil, err
	}
	d := h.l.dialect
	_, err = c.PgConn().Exec(ctx, "SET lock_timeout = 0; SET idle_session_timeout = 0; SELECT pg_advisory_lock_shared("+d.lock(lockListen)+"); LISTEN "+pgx.Identifier{d.channel}.Sanitize()).ReadAll()
	if err != nil {
		_ = c.Close(ctx) // the first error counts
		return nil, err
	}
	return c, nil
}

// heard passes on what the function announce has sent: a position, then a name of a
// space on each line; no name stands for all.
func (h *hub) heard(payload string) {
	head, rest, _ := strings.Cut(payload, "\n")
	last, err := strconv.ParseInt(head, 10, 64)
	if err != nil {
		last, rest = 0, "" // not from us: looking once too often does no harm
	}
	if rest == "" {
		h.announceAll(last)
		return
	}
	h.announce(last, strings.Split(rest, "\n"))
}
