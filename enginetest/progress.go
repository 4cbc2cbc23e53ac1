package enginetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
)

// progress is the context of a case or a program. It ends when nothing has moved for a
// while: how long the whole takes depends on the machine and says nothing about the
// engine. Any goroutine may use it.
type progress struct {
	context.Context
	end  context.CancelCauseFunc
	wait time.Duration
	mu   struct {
		sync.Mutex
		timer *time.Timer
	}
}

// newProgress returns a context that ends when moved has not been called for wait, or
// with a call of end.
func newProgress(wait time.Duration) *progress {
	p := &progress{wait: wait}
	p.Context, p.end = context.WithCancelCause(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.timer = time.AfterFunc(wait, func() {
		p.end(fmt.Errorf("the log has done nothing for %v: %w", wait, context.DeadlineExceeded))
	})
	return p
}

// moved says that the log has done something.
func (p *progress) moved() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Err() == nil {
		p.mu.timer.Reset(p.wait)
	}
}

// stop releases what p holds.
func (p *progress) stop() {
	p.end(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.timer.Stop()
}

// attempt commits b, which may fail.
func (e *env) attempt(b *mainstem.Batch) (mainstem.Receipt, error) {
	r, err := e.log.Commit(e.ctx, b)
	if err == nil {
		e.progress.moved()
	}
	return r, err
}
