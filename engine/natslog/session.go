package natslog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem/internal/redact"
)

// A session lasts from one loss of the connection to the next: an answer that has not
// come by then never will.

// try returns the context of one request to the servers.
func (l *Log) try(ctx context.Context) (context.Context, context.CancelFunc) {
	l.mu.RLock()
	session := l.session
	l.mu.RUnlock()
	limit := l.pace.limit()
	try, cancel := context.WithTimeout(ctx, min(limit, l.opts.Timeout))
	stop := context.AfterFunc(session, cancel)
	return try, func() {
		late := errors.Is(try.Err(), context.DeadlineExceeded) && ctx.Err() == nil
		l.pace.note(limit, late)
		stop()
		cancel()
	}
}

// How long one request waits for its answer before it is sent again. That is safe for
// every request, also for a publish: the sequence it expects can be taken only once.
const (
	tryTimeout    = 2 * time.Second
	maxTryTimeout = 8 * time.Second
)

// pace is how long one request waits: twice as long when an answer did not come in time,
// until all answers have come in time for paceCalm. With a fixed limit servers that take a
// little longer would be asked the same again and again, and never be heard.
type pace struct {
	mu struct {
		sync.Mutex
		doublings int
		late      time.Time // when doublings changed last, or would have
	}
}

// paceCalm is for how long no answer may be late before requests wait for less again.
const paceCalm = 30 * time.Second

func (p *pace) limit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limitLocked()
}

func (p *pace) limitLocked() time.Duration { return min(tryTimeout<<p.mu.doublings, maxTryTimeout) }

// note says whether a request that waited for limit at most was not answered in time.
func (p *pace) note(limit time.Duration, late bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case late:
		p.mu.late = time.Now()
		if limit == p.limitLocked() && limit < maxTryTimeout { // else another request was first
			p.mu.doublings++
		}
	case p.mu.doublings > 0 && time.Since(p.mu.late) > paceCalm:
		p.mu.doublings, p.mu.late = p.mu.doublings-1, time.Now()
	}
}

// watch is the goroutine that begins a new session when the connection is back.
func (l *Log) watch(changes chan nats.Status) {
	defer l.running.Done()
	for {
		select {
		case _, ok := <-changes:
			if !ok {
				return
			}
			l.newSession()
		case <-l.ctx.Done():
			l.conn.RemoveStatusListener(changes)
			return
		}
	}
}

// stalled begins a new session if nothing was read since the progress was seen, since the tail
// may wait for what was lost. The requests of all callers are sent again then: it does
// so after 2*tryTimeout and then half as often each time, so that slow servers come to
// answer, until the state moves on.
func (l *Log) stalled(seen uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.progressLocked() != seen {
		return
	}
	if l.stall.seen != seen || l.stall.after == 0 {
		l.stall.seen, l.stall.after = seen, 2*tryTimeout
	}
	if time.Since(l.stall.session) < l.stall.after {
		return
	}
	l.stall.after = min(2*l.stall.after, maxStall)
	l.sessionLocked()
}

// maxStall bounds how long a tail that does not move on is left alone.
const maxStall = 30 * time.Second

// newSession ends the requests that wait for an answer, so that they are sent again.
func (l *Log) newSession() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessionLocked()
}

func (l *Log) sessionLocked() {
	l.stall.session = time.Now()
	if l.renew != nil {
		l.renew()
	}
	l.session, l.renew = context.WithCancel(l.root)
}

// report makes a connection tell the logger what it would print.
func (o *Options) report() []nats.Option {
	log := o.Logger
	return []nats.Option{
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("connection", "error", err)
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("connection lost", "error", err)
			}
		}),
		nats.ReconnectHandler(func(conn *nats.Conn) {
			log.Info("connection is back", "server", redact.Address(conn.ConnectedUrl()))
		}),
	}
}
