package actor

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Timer sends a message or calls a function later, once or periodically, like send_after and
// send_interval of Erlang. It is safe for concurrent use.
type Timer struct {
	mu    sync.Mutex // guards the fields below
	t     *time.Timer
	over  bool          // stopped, or, without a period, its message was sent or its call has begun
	every time.Duration // the period; 0: once
	due   time.Time     // when it fires next, or fired last
}

// Stop cancels the timer. It returns false if the timer was stopped before, or had no period and
// has taken effect.
func (t *Timer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	prevented := !t.over
	t.over = true
	t.t.Stop()
	return prevented
}

// claim reports whether the timer may still take effect. Without a period it may do so once.
func (t *Timer) claim() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.over = t.every == 0
	return true
}

// startTimer calls fire after d and, if every is above 0, once in each period from then on until
// fire returns false or the timer is stopped. fire runs in a goroutine of its own, never twice at
// once.
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

// again sets the timer to the next multiple of the period that has not passed: periods that passed
// while fire ran, or the process was suspended, are skipped.
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

// SendAfter sends m after d, unless the timer is stopped first. It does not wait for room: if the
// mailbox is full, m is treated as the [Overflow] policy says, and becomes a dead letter with
// [Block]. The timer outlives the actor that set it.
func (r Ref[M]) SendAfter(d time.Duration, m M) *Timer {
	return startTimer(d, 0, func(t *Timer) bool { return t.claim() && r.Send(noWait, m) == nil })
}

// SendEvery sends m once in each period d, like SendAfter, until the timer is stopped or the
// receiver has ended. Periods that pass while the process is suspended are skipped.
func (r Ref[M]) SendEvery(d time.Duration, m M) *Timer {
	d = max(d, 1)
	return startTimer(d, d, func(t *Timer) bool {
		return t.claim() && !errors.Is(r.Send(noWait, m), ErrStopped)
	})
}

// After calls f in the actor's turn after d: the call goes to the end of the mailbox then, at
// priority [User], even if the mailbox is full. An error of f ends the actor. The timer ends with
// the incarnation. Once Stop has returned in the actor's turn, f is not called any more.
func (c *Context[M]) After(d time.Duration, f func() error) *Timer { return c.after(d, 0, f) }

// Every calls f once in each period d, like After. A period in which the call before still waits in
// the mailbox is skipped, as a time.Ticker drops ticks: so the calls of an actor that is slow do not
// collect beyond the limit of its mailbox, as those of send_interval would. Periods that pass while
// the process is suspended are skipped, too.
func (c *Context[M]) Every(d time.Duration, f func() error) *Timer {
	d = max(d, 1)
	return c.after(d, d, f)
}

func (c *Context[M]) after(d, every time.Duration, f func() error) *Timer {
	p, inc := c.self, c.self.incarnation()
	var waits atomic.Bool // a call is in the mailbox
	return startTimer(d, every, func(t *Timer) bool {
		if waits.Swap(true) {
			return p.lives(inc) // else the call is never made, and the timer ends
		}
		return p.post(User, &extra{inc: inc, task: func() error {
			waits.Store(false)
			if !t.claim() {
				return nil
			}
			return f()
		}})
	})
}

// lives reports whether an incarnation is the present one, and alive.
func (c *core) lives(inc uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inc == inc && c.state.alive()
}

func (c *core) incarnation() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inc
}
