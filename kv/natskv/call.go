package natskv

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// caller sends requests and waits for their replies. It keeps inboxes, each with
// a subscription of its own that delivers straight into a channel: a reply
// reaches the goroutine that waits for it without passing through another.
type caller struct {
	nc      *nats.Conn
	timeout time.Duration // of requests whose context has no deadline
	done    chan struct{} // closed by close

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
	return &caller{nc: nc, timeout: timeout, done: make(chan struct{})}
}

// inbox is a place where replies arrive. It belongs to one goroutine at a time.
type inbox struct {
	prefix  string // of its reply subjects, with the dot at its end
	replies []string
	sub     *nats.Subscription
	ch      chan *nats.Msg
	timer   *time.Timer
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
	in.sub, err = c.nc.ChanSubscribe(in.prefix+"*", in.ch)
	return in, err
}

// give takes back an inbox. One that still waits for replies is dropped: they
// would come to whoever takes it next.
func (c *caller) give(in *inbox, answered bool) {
	if !answered {
		in.sub.Unsubscribe()
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
		in.sub.Unsubscribe()
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
	close(c.done)
	for _, in := range idle {
		in.sub.Unsubscribe()
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
	select {
	case m := <-in.ch:
		return m, nil
	default:
	}
	var expired <-chan time.Time
	if _, ok := ctx.Deadline(); !ok {
		if in.timer == nil {
			in.timer = time.NewTimer(c.timeout)
		} else {
			in.timer.Reset(c.timeout)
		}
		defer in.timer.Stop()
		expired = in.timer.C
	}
	select {
	case m := <-in.ch:
		return m, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-expired:
		return nil, errTimeout
	case <-c.done:
		return nil, errClosed
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
