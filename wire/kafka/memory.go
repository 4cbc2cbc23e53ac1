package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem/internal/budget"
)

// A connection has two reservations: request, of the budget Server.requests, and carries, of
// Server.answers. It holds request from the first bytes of a request until its answer is
// written, and acquires carries after request, never the other way round, so that connections
// do not wait for each other in a cycle. Package budget has the exception that lets one
// request at a time grow beyond the limit.
//
// A connection that waits for its client, or a JoinGroup or SyncGroup that waits for other
// clients, may hold its reservation while others need it. So it registers the reservation for
// recall: when another reservation has waited for budget.Patience and this one had no progress
// for as long, the budget calls recall, which closes the socket. recall runs in a goroutine of
// the budget. It acts only while mu.slow is set, so that a connection that is serving a
// request meanwhile is left alone. The read or write that fails then reports errRecalled.

// take reserves memory for the request that is being read or served, up to n bytes in all.
// Nothing is reserved if n is at most freeFrame. It waits until the bytes are free, at most
// WriteTimeout; the client is not read further meanwhile. The error is errDrained if the
// server shuts down.
func (c *conn) take(n int) error {
	more := int64(n) - c.request.Size()
	if n <= freeFrame || more <= 0 || c.request.Try(more) {
		return nil
	}
	wait := c.s.o.WriteTimeout
	ctx, cancel := context.WithTimeoutCause(c.s.ctx, wait, fmt.Errorf("waited %v", wait))
	defer cancel()
	if err := c.request.Acquire(ctx, more); err != nil {
		if c.s.ctx.Err() != nil {
			return errDrained
		}
		return err
	}
	return nil
}

// errRecalled is the reason why a connection that was recalled ends.
var errRecalled = errors.New("others waited for memory that the client had")

// progress registers h for recall, or records that the client has sent or taken another chunk
// of the bytes that h has memory for. Without progress for budget.Patience, the connection is
// closed when others have waited as long for that memory.
func (c *conn) progress(h *budget.Hold) {
	if h.Size() > 0 {
		h.OnRecall(c.recall, nil)
	}
}

// recall closes the connection if it waits for a client. Any goroutine may call it.
func (c *conn) recall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.slow {
		c.mu.recalled = true
		_ = c.nc.Close()
	}
}

// yielding returns a context for a handler that waits for other clients, perhaps for minutes,
// while its request is in memory. When others have waited for that memory, the context ends
// and the connection is closed. The caller must call the function returned when the wait is
// over.
func (c *conn) yielding(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	c.setSlow(true)
	c.request.OnRecall(func() {
		c.recall()
		cancel()
	}, nil)
	return ctx, func() {
		c.request.OnRecall(nil, nil)
		c.setSlow(false)
		cancel()
	}
}

// setSlow sets whether the connection waits for its client to send or take something, or for
// other clients: only then recall closes it.
func (c *conn) setSlow(slow bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.slow = slow
}

// unlessRecalled returns err, the error of a read or write, or errRecalled if recall has
// caused it.
func (c *conn) unlessRecalled(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.recalled {
		return fmt.Errorf("no progress for %v: %w", budget.Patience, errRecalled)
	}
	return err
}
