package budget

import (
	"container/list"
	"time"
)

// Patience is how long a hold waits before the budget recalls others, see [Hold.OnRecall].
const Patience = 5 * time.Second

// recallEvery is the time between two recalls: what was recalled takes a moment to come back.
const recallEvery = 250 * time.Millisecond

// recall is what a hold that can be recalled adds to it.
type recall struct {
	f     func()
	since time.Time     // of the last progress
	at    *list.Element // in tree.recallable
}

// OnRecall makes h a hold that can be recalled, from now on. When another hold has waited
// for [Patience] for bytes that h has, and h has had no progress for as long, and for longer
// than all others that could be recalled, then the budget calls f, once, in a goroutine of
// its own. f makes the holder give its bytes back soon: it closes the connection of a client
// that does not read, for example.
//
// To call OnRecall again is progress. Nil, or to give all bytes back, ends it; an f that has
// been started may still run then. A hold without bytes is not recalled.
func (h *Hold) OnRecall(f func()) {
	if h.of == nil {
		return
	}
	t := h.of.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	h.forgetRecallLocked()
	if f != nil && h.size > 0 {
		h.recall = recall{f: f, since: time.Now(), at: t.recallable.PushBack(h)}
	}
}

// forgetRecallLocked makes h a hold that cannot be recalled.
func (h *Hold) forgetRecallLocked() {
	if h.recall.at != nil {
		h.of.tree.recallable.Remove(h.recall.at)
		h.recall = recall{}
	}
}

// armLocked has press run after d, unless it will run anyway.
func (t *tree) armLocked(d time.Duration) {
	if !t.armed {
		t.armed = true
		time.AfterFunc(d, t.press)
	}
}

// press recalls one hold if somebody has waited for long, and runs again as long as
// somebody waits. It costs nothing when nobody does.
func (t *tree) press() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = false
	if t.waiting == 0 {
		return
	}
	now, next := time.Now(), Patience
	for _, b := range t.all {
		for _, q := range []*list.List{&b.growing, &b.new} {
			e := q.Front()
			if e == nil {
				continue
			}
			w := e.Value.(*waiter)
			if left := Patience - now.Sub(w.since); left > 0 {
				next = min(next, left)
				continue
			}
			next = min(next, recallEvery)
			if t.recallForLocked(b, w, now) {
				t.armLocked(recallEvery)
				return
			}
		}
	}
	t.armLocked(next)
}

// recallForLocked recalls the hold that has been without progress for longest of those
// whose bytes w, which waits for b, lacks. It reports whether there was one.
func (t *tree) recallForLocked(b *Budget, w *waiter, now time.Time) bool {
	for e := t.recallable.Front(); e != nil; e = e.Next() {
		h := e.Value.(*Hold)
		if now.Sub(h.recall.since) < Patience {
			return false // those behind it had progress later
		}
		if h != w.h && b.lacksLocked(w.n, h.of) {
			go h.recall.f()
			h.of.recalled++
			h.forgetRecallLocked()
			return true
		}
	}
	return false
}

// lacksLocked reports whether b or an ancestor has no room for n bytes and has handed out
// some by way of from.
func (b *Budget) lacksLocked(n int64, from *Budget) bool {
	for a := b; a != nil; a = a.parent {
		if n > a.limit-a.used && from.within(a) {
			return true
		}
	}
	return false
}
