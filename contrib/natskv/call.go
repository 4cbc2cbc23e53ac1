package natskv

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// caller sends requests and waits for their replies. It keeps inboxes, each with
// a subscription of its own that delivers straight into a channel: a reply
// reaches the goroutine that waits for it without passing through another.
type caller struct {
	nc      *nats.Conn
	timeout time.Duration // of requests whose context has no deadline
	dog     *watchdog

	mu struct {
		sync.Mutex
		small, large []*inbox // idle
		closed       bool
	}
}

const (
	smallInbox = 4    // replies that an inbox for single requests holds
	largeInbox = 2048 // replies that an inbox for many requests holds
	maxIdle    = 64   // inboxes of each size that are kept for the next request
)

func newCaller(nc *nats.Conn, timeout time.Duration) *caller {
	return &caller{nc: nc, timeout: timeout, dog: newWatchdog(timeout)}
}

// inbox is a place where replies arrive. It belongs to one goroutine at a time.
type inbox struct {
	prefix  string // of its reply subjects, with the dot at its end
	replies []string
	sub     *nats.Subscription
	ch      chan *nats.Msg // of replies, and of nil from the watchdog
	since   atomic.Int64   // when its wait began, see watchdog
	late    int            // how many nils of waits before are still to come, with those in lost
	lost    atomic.Int64   // nils that found no room, and do not come
	large   bool
}

// take returns an idle inbox, or a new one.
func (c *caller) take(large bool) (*inbox, error) {
	c.mu.Lock()
	idle := &c.mu.small
	if large {
		idle = &c.mu.large
	}
	if n := len(*idle); n > 0 {
		in := (*idle)[n-1]
		*idle = (*idle)[:n-1]
		c.mu.Unlock()
		return in, nil
	}
	closed := c.mu.closed
	c.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	size := smallInbox
	if large {
		size = largeInbox
	}
	in := &inbox{prefix: c.nc.NewInbox() + ".", ch: make(chan *nats.Msg, size), large: large}
	var err error
	if in.sub, err = c.nc.ChanSubscribe(in.prefix+"*", in.ch); err != nil {
		return nil, err
	}
	c.dog.add(in)
	return in, nil
}

// drop gives up an inbox.
func (c *caller) drop(in *inbox) {
	c.dog.remove(in)
	in.sub.Unsubscribe()
}

// give takes back an inbox. One that still waits for replies is dropped: they
// would come to the caller that takes it next.
func (c *caller) give(in *inbox, answered bool) {
	if !answered || in.late > 0 {
		c.drop(in)
		return
	}
	c.mu.Lock()
	idle := &c.mu.small
	if in.large {
		idle = &c.mu.large
	}
	keep := !c.mu.closed && len(*idle) < maxIdle
	if keep {
		*idle = append(*idle, in)
	}
	c.mu.Unlock()
	if !keep {
		c.drop(in)
	}
}

// close ends all requests with errClosed.
func (c *caller) close() {
	c.mu.Lock()
	if c.mu.closed {
		c.mu.Unlock()
		return
	}
	c.mu.closed = true
	idle := append(c.mu.small, c.mu.large...)
	c.mu.small, c.mu.large = nil, nil
	c.mu.Unlock()
	c.dog.close()
	for _, in := range idle {
		c.drop(in)
	}
}

// reply returns the reply subject of request i: an inbox uses the same ones again
// and again, which servers route faster than new ones.
func (in *inbox) reply(i int) string {
	for len(in.replies) <= i {
		in.replies = append(in.replies, in.prefix+strconv.Itoa(len(in.replies)))
	}
	return in.replies[i]
}

// number returns the number of the request that m answers.
func (in *inbox) number(m *nats.Msg) int {
	n, err := strconv.Atoi(m.Subject[len(in.prefix):])
	if err != nil {
		return -1
	}
	return n
}

// wait returns the next reply. The error is that of the context, errTimeout or
// errClosed.
func (c *caller) wait(ctx context.Context, in *inbox) (*nats.Msg, error) {
	for {
		m, err := c.next(ctx, in)
		if m != nil || err != nil {
			return m, err
		}
		in.late -= int(in.lost.Swap(0))
		if in.late <= 0 {
			in.late = 0
			return nil, c.ended()
		}
		in.late--
	}
}

// ended says why the watchdog has ended a wait.
func (c *caller) ended() error {
	if c.dog.closed.Load() {
		return errClosed
	}
	return errTimeout
}

// next returns what comes next: nil is a word of the watchdog, to this wait or late to
// one before.
func (c *caller) next(ctx context.Context, in *inbox) (*nats.Msg, error) {
	if len(in.ch) > 0 { // and nobody else takes it
		return <-in.ch, nil
	}
	_, deadline := ctx.Deadline()
	since := c.dog.begin(in, !deadline)
	if c.dog.closed.Load() { // after begin: close looks the other way round
		return nil, errClosed
	}
	select {
	case m := <-in.ch:
		if !c.dog.end(in, since) && m != nil {
			in.late++
		}
		return m, nil
	case <-ctx.Done():
		if !c.dog.end(in, since) {
			in.late++
		}
		return nil, context.Cause(ctx)
	}
}

// request is one message to a server, to be answered by one.
type request struct {
	subject string
	header  nats.Header
	data    []byte
}

// send publishes r with the reply subject given.
func (c *caller) send(r *request, reply string) error {
	if r.header == nil {
		return c.nc.PublishRequest(r.subject, reply, r.data)
	}
	return c.nc.PublishMsg(&nats.Msg{Subject: r.subject, Reply: reply, Header: r.header, Data: r.data})
}

// call sends r and returns the reply. sent is false if the server certainly did
// not receive it.
func (c *caller) call(ctx context.Context, r *request) (m *nats.Msg, sent bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, context.Cause(ctx)
	}
	in, err := c.take(false)
	if err != nil {
		return nil, false, err
	}
	if err := c.send(r, in.reply(0)); err != nil {
		c.give(in, true)
		return nil, false, err
	}
	m, err = c.wait(ctx, in)
	c.give(in, err == nil)
	if err != nil {
		return nil, true, err
	}
	if isNoResponders(m) {
		return nil, false, errNoResponders
	}
	return m, true, nil
}

// isNoResponders reports whether m says that nobody listens to a request.
func isNoResponders(m *nats.Msg) bool {
	return len(m.Data) == 0 && statusOf(m) == "503"
}

// statusOf returns the status of a message without a body, or "".
func statusOf(m *nats.Msg) string {
	if s := m.Header["Status"]; len(s) > 0 {
		return s[0]
	}
	return ""
}
