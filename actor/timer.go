package actor

import (
	"errors"
	"sync"
	"time"
)

// Timer is a message or a call that comes later, once or again and again.
type Timer struct {
	mu    sync.Mutex // guards the fields below
	t     *time.Timer
	over  bool          // stopped, or fired for the last time
	every time.Duration // 0: once
	due   time.Time
}

// Stop cancels the timer, and reports whether that prevented a message or call:
// false if it was stopped before, or is over.
func (t *Timer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	prevented := !t.over
	t.over = true
	t.t.Stop()
	return prevented
}

// claim reports whether the timer may still take effect, and ends it if it is for once.
func (t *Timer) claim() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.over = t.every == 0
	return true
}

// startTimer calls fire after d, and then every period if that is above 0, for as
// long as fire returns true.
func startTimer(d, every time.Duration, fire func(t *Timer) bool) *Timer {
	t := &Timer{every: every, due: time.Now().Add(d)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.t = time.AfterFunc(d, func() {
		if fire(t) && every > 0 {
			t.again()
		}
	})
	return t
}

// again waits for the next period; those that were missed are skipped.
func (t *Timer) again() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	now := time.Now()
	t.due = t.due.Add(t.every)
	if behind := now.Sub(t.due); behind > 0 {
		t.due = t.due.Add(behind.Truncate(t.every) + t.every)
	}
	t.t.Reset(t.due.Sub(now))
}

// SendAfter sends m after d, unless the timer is stopped first. It does not wait
// for room in a mailbox: what finds it full is dropped as its policy says, or is a
// dead letter.
func (r Ref[M]) SendAfter(d time.Duration, m M) *Timer {
	return startTimer(d, 0, func(t *Timer) bool { return t.claim() && r.Send(noWait, m) == nil })
}

// SendEvery sends m every d, like SendAfter, until the timer is stopped or the
// actor has. Times that were missed are not made up for.
func (r Ref[M]) SendEvery(d time.Duration, m M) *Timer {
	d = max(d, 1)
	return startTimer(d, d, func(t *Timer) bool {
		return t.claim() && !errors.Is(r.Send(noWait, m), ErrStopped)
	})
}

// After calls f after d in the actor's turn, after the messages that wait then.
// An error of f ends the actor. The call is forgotten when the actor ends or
// restarts; once Stop has returned in the actor's turn, it does not come.
func (c *Context[M]) After(d time.Duration, f func() error) *Timer { return c.after(d, 0, f) }

// Every calls f every d, like After. Times that were missed are not made up for.
func (c *Context[M]) Every(d time.Duration, f func() error) *Timer {
	d = max(d, 1)
	return c.after(d, d, f)
}

func (c *Context[M]) after(d, every time.Duration, f func() error) *Timer {
	p, inc := c.self, c.self.incarnation()
	return startTimer(d, every, func(t *Timer) bool {
		return p.post(User, &extra{inc: inc, task: func() error {
			if !t.claim() {
				return nil
			}
			return f()
		}})
	})
}

func (c *core) incarnation() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inc
}
