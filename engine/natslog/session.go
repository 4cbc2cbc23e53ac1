package natslog

import (
	"context"

	"github.com/nats-io/nats.go"
)

// A session lasts from one loss of the connection to the next: an answer that has not
// come by then never will.

// try returns the context of one request to the servers.
func (l *Log) try(ctx context.Context) (context.Context, context.CancelFunc) {
	l.mu.RLock()
	session := l.session
	l.mu.RUnlock()
	try, cancel := context.WithTimeout(ctx, min(tryTimeout, l.opts.Timeout))
	stop := context.AfterFunc(session, cancel)
	return try, func() { stop(); cancel() }
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

// newSession ends the requests that wait for an answer, so that they are sent again.
func (l *Log) newSession() {
	l.mu.Lock()
	defer l.mu.Unlock()
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
			log.Info("connection is back", "server", conn.ConnectedUrlRedacted())
		}),
	}
}
