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
	own   *Hold         // of the same holder, for whose sake it is not recalled; nil: none
	since time.Time     // of the last progress
	at    *list.Element // in tree.recallable
}

// OnRecall makes h a hold that can be recalled, from now on. When another hold has waited
// for [Patience] for bytes that h has, and h has had no progress for as long, and for longer
// than all others that could be recalled, then the budget calls f, once, in a goroutine of
// its own. f makes the holder give its bytes back soon: it closes the connection of a client
// that does not read, for example.
//
// own is another hold of the same holder, for whose sake h is not recalled; nil: there is
// none.
//
// To call OnRecall again is progress. Nil, or to give all bytes back, ends it; an f that has
// been started may still run then. A hold without bytes is not recalled.
func (h *Hold) OnRecall(f func(), own *Hold) {
	if h.of == nil {
		return
	}
	t := h.of.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	h.forgetRecallLocked()
	if f != nil && h.size > 0 {
		h.recall = recall{f: f, own: own, since: time.Now(), at: t.recallable.PushBack(h)}
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
			left, ok := t.pressForLocked(b, q, now)
			if ok {
				t.armLocked(recallEvery)
				return
			}
			next = min(next, left)
		}
	}
	t.armLocked(max(next, recallEvery))
}

// pressForLocked recalls one hold for the waiters of a queue of b, and reports whether there
// was one; if not, when to try again. A hold is not recalled for a waiter of its own holder,
// but it is for another: so if nothing can be recalled for the first waiter, the second is
// tried. The second goes after the first, and lacks at least what the first lacks.
func (t *tree) pressForLocked(b *Budget, q *list.List, now time.Time) (again time.Duration, ok bool) {
	again = Patience
	n := int64(0)
	for e, i := q.Front(), 0; e != nil && i < 2; e, i = e.Next(), i+1 {
		w := e.Value.(*waiter)
		if left := Patience - now.Sub(w.since); left > 0 {
			return min(again, left), false
		}
		again, n = recallEvery, max(n, w.n)
		if t.recallForLocked(b, w.h, n, now) {
			return 0, true
		}
	}
	return again, false
}

// recallForLocked recalls the hold that has been without progress for longest of those whose
// bytes are missing to n more for the hold of, which waits for b. It reports whether there
// was one.
func (t *tree) recallForLocked(b *Budget, of *Hold, n int64, now time.Time) bool {
	for e := t.recallable.Front(); e != nil; e = e.Next() {
		h := e.Value.(*Hold)
		if now.Sub(h.recall.since) < Patience {
			return false // those behind it had progress later
		}
		if h != of && h.recall.own != of && b.lacksLocked(n, h.of) {
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
