package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem/internal/budget"
)

// take lets the request that is being read or served have n bytes in all, but for those of
// freeFrame. It waits until there are as many: the client is not read further meanwhile.
// Requests that each have a part of what they need do not wait for each other without end,
// see package budget.
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

// errRecalled ends a connection for the sake of others.
var errRecalled = errors.New("others waited for memory that the client had")

// progress notes that the client has taken or sent something of what h has memory for. A
// client without progress for budget.Patience loses the connection when others have waited
// as long for that memory.
func (c *conn) progress(h *budget.Hold) {
	if h.Size() > 0 {
		h.OnRecall(c.recall, nil)
	}
}

// recall ends the connection if it waits for a client.
func (c *conn) recall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.slow {
		c.mu.recalled = true
		_ = c.nc.Close()
	}
}

// yielding returns a context for what waits for other clients, perhaps for minutes, while its
// request is in memory. When others have waited for that memory, the context ends and the
// connection is closed. The function returned ends that.
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

// setSlow notes whether the connection waits for its client to send or take something, or for
// other clients.
func (c *conn) setSlow(slow bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.slow = slow
}

// unlessRecalled returns why the client could not be waited for: err, or that it was
// recalled.
func (c *conn) unlessRecalled(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.recalled {
		return fmt.Errorf("no progress for %v: %w", budget.Patience, errRecalled)
	}
	return err
}
