package budget

import (
	"context"
	"errors"
	"time"
)

// Hold is what somebody has taken from a budget. Get one from [Budget.Hold]; the zero
// Hold is one of a budget without a limit. A Hold belongs to one goroutine at a time and
// must not be copied once it has bytes: see [Hold.Move].
type Hold struct {
	of *Budget

	// The rest is under of.tree.mu.

	size   int64
	recall recall // zero: it cannot be recalled
}

// Acquire takes n more bytes, and waits until it may have them or ctx ends: then the
// error is an [*ExhaustedError] and the hold has what it had before. n of 0 or less is
// nothing. Who may wait while holding what is said in the package comment.
func (h *Hold) Acquire(ctx context.Context, n int64) error {
	b := h.of
	if b == nil || n <= 0 {
		return nil
	}
	t := b.tree
	t.mu.Lock()
	// The hold that is beyond the limit goes on at once: the others wait for it.
	if (t.waiting == 0 || b.over == h) && b.grantNowLocked(h, n) {
		t.mu.Unlock()
		return nil
	}
	w := b.waitLocked(h, n)
	t.serveLocked()
	select {
	case <-w.ready:
		t.mu.Unlock()
		return nil
	default:
		b.waited++
	}
	t.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return b.giveUp(ctx, w)
	}
}

// grantNowLocked gives h n more bytes if it may have them.
func (b *Budget) grantNowLocked(h *Hold, n int64) bool {
	ok, over := b.admitsLocked(h, n)
	if ok {
		b.grantLocked(h, n, over)
	}
	return ok
}

// giveUp ends the wait of w, unless it has just got its bytes.
func (b *Budget) giveUp(ctx context.Context, w *waiter) error {
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	default:
	}
	b.leaveLocked(w)
	b.refused++
	b.tree.serveLocked() // those behind it may fit
	return &ExhaustedError{Budget: b.name, Want: w.n, Used: b.used, Limit: b.limit, Cause: context.Cause(ctx)}
}

// Try takes n more bytes if they are free and nobody waits for them. It goes beyond no
// limit, but for a hold that is alone in its budget.
func (h *Hold) Try(n int64) bool {
	b := h.of
	if b == nil || n <= 0 {
		return true
	}
	t := b.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if b.used > h.size && (t.waiting > 0 && b.wantedLocked() || !b.fitsLocked(n)) {
		return false
	}
	if b.used == h.size && b.firstLocked() != nil {
		return false
	}
	b.chargeLocked(h, n)
	return true
}

// wantedLocked reports whether somebody waits for bytes of b or of an ancestor.
func (b *Budget) wantedLocked() bool {
	if b.firstLocked() != nil {
		return true
	}
	for _, c := range b.tree.all {
		w := c.firstLocked()
		if w == nil {
			continue
		}
		for a := b.parent; a != nil; a = a.parent {
			if c.within(a) && w.n > a.limit-a.used {
				return true
			}
		}
	}
	return false
}

// AcquireNow takes n more bytes as Try does, for holders that cannot wait. If they are not
// free, the error is an [*ExhaustedError], and one hold is recalled as if h had waited for
// [Patience]: its bytes are for those who come next.
func (h *Hold) AcquireNow(n int64) error {
	if h.Try(n) {
		return nil
	}
	b, t := h.of, h.of.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	b.refused++
	t.recallForLocked(b, h, n, time.Now())
	return &ExhaustedError{Budget: b.name, Want: n, Used: b.used, Limit: b.limit, Cause: errCannotWait}
}

var errCannotWait = errors.New("this cannot wait for others to give some back")

// Take takes n more bytes however many there are, for what is in memory already and
// bounded by something else. The next Acquire waits longer for it.
func (h *Hold) Take(n int64) {
	if h.of == nil || n <= 0 {
		return
	}
	h.of.tree.mu.Lock()
	defer h.of.tree.mu.Unlock()
	h.of.chargeLocked(h, n)
}

// Shrink gives n bytes back, at most all.
func (h *Hold) Shrink(n int64) {
	if h.of == nil || n <= 0 {
		return
	}
	t := h.of.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if n = min(n, h.size); n > 0 {
		h.of.chargeLocked(h, -n)
		t.serveLocked()
	}
}

// Release gives everything back. The hold may be used again.
func (h *Hold) Release() {
	if h.of != nil {
		h.Shrink(1<<63 - 1)
	}
}

// Move returns a hold with everything that h has, and leaves h empty. Nobody waits with h.
// Neither can be recalled, until [Hold.OnRecall] is called.
func (h *Hold) Move() *Hold {
	to := &Hold{of: h.of}
	if h.of == nil {
		return to
	}
	h.of.tree.mu.Lock()
	defer h.of.tree.mu.Unlock()
	h.forgetRecallLocked()
	to.size, h.size = h.size, 0
	if h.of.over == h {
		h.of.over = to
	}
	return to
}

// Size returns the bytes that the hold has; 0 for a budget without a limit.
func (h *Hold) Size() int64 {
	if h.of == nil {
		return 0
	}
	h.of.tree.mu.Lock()
	defer h.of.tree.mu.Unlock()
	return h.size
}
