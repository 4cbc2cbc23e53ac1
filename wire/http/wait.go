package viewhttp

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// lagging is the pause between two looks at the head of a log that is read where it is applied.
var lagging = backoff.Policy{First: time.Millisecond, Max: 50 * time.Millisecond, Jitter: 0.2}

// waitFor waits until reads see the position of the header Mainstem-Wait-For, if there is one:
// with several servers on one log, another one may have answered the write. It does not wait when
// the handler is closed.
func (c *call) waitFor() error {
	text := c.r.Header.Get(headerWaitFor)
	if text == "" {
		return nil
	}
	p, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return invalid("%s is %.40q: want a position, as Mainstem-Position says it", headerWaitFor, text)
	}
	limit := c.h.o.WaitLimit
	ctx, stop := c.untilStopped()
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var head mainstem.Position
	for n := 1; ; n++ {
		if head, err = c.h.log.Head(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil && uint64(head) >= p {
			return nil
		}
		if !lagging.Wait(ctx, n) {
			break
		}
	}
	if err := c.ctx.Err(); err != nil {
		return mainstem.Ended(c.ctx, "wait", time.Time{}, "a position").WithOutcome(mainstem.NotWritten)
	}
	if context.Cause(ctx) == errStopping {
		return mainstem.Refusef(mainstem.KindUnavailable, "http", "%w", errStopping)
	}
	return refuse(http.StatusGatewayTimeout, mainstem.KindUnavailable, "this server is at position %d, and waited %v for %d", head, limit, p)
}
