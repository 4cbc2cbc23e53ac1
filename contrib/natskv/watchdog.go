package natskv

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// watchdog ends waits for replies: those that take too long, and all of them when the
// store is closed. It does so by putting nil into the inbox where the reply would arrive. A timer
// and a channel of its own for each wait would take half a microsecond of each request.
//
// It counts ticks while anybody waits, and rests otherwise.
type watchdog struct {
	tick   time.Duration
	now    atomic.Int64 // ticks so far
	armed  atomic.Bool  // the next tick will come
	closed atomic.Bool
	timer  *time.Timer

	mu struct {
		sync.Mutex
		inboxes map[*inbox]struct{} // all there are
	}
}

const (
	// patienceTicks is how many ticks a wait may take; it ends at most two later.
	patienceTicks = 16

	// What inbox.since is, besides the tick in which a wait began.
	sinceNever = 0             // nobody waits
	sinceEnded = -1            // the watchdog has ended the wait
	sinceAlone = math.MaxInt64 // somebody waits, as long as the context allows
)

func newWatchdog(timeout time.Duration) *watchdog {
	w := &watchdog{tick: max(timeout/patienceTicks, time.Millisecond)}
	w.now.Store(1)
	w.mu.inboxes = make(map[*inbox]struct{})
	w.timer = time.AfterFunc(w.tick, w.check)
	w.timer.Stop()
	return w
}

// add has the watchdog know an inbox, until remove.
func (w *watchdog) add(in *inbox) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.inboxes[in] = struct{}{}
}

func (w *watchdog) remove(in *inbox) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.mu.inboxes, in)
}

// begin notes that a wait begins; with bounded, the watchdog ends it. It returns what the
// wait has to give to end.
func (w *watchdog) begin(in *inbox, bounded bool) (since int64) {
	since = sinceAlone
	if bounded {
		since = w.now.Load()
	}
	in.since.Store(since)
	if bounded && !w.armed.Load() { // after the store: check looks the other way round
		w.arm()
	}
	return since
}

// end notes that a wait is over. It is false if the watchdog has ended it before:
// then there is, or will be, a nil in the inbox, or one more in lost.
func (w *watchdog) end(in *inbox, since int64) bool {
	return in.since.CompareAndSwap(since, sinceNever)
}

func (w *watchdog) arm() {
	if w.armed.CompareAndSwap(false, true) {
		w.timer.Reset(w.tick)
	}
}

// check is one tick.
func (w *watchdog) check() {
	now := w.now.Add(1)
	if w.closed.Load() {
		return
	}
	if w.bark(func(since int64) bool { return since != sinceAlone && now-since > patienceTicks }) {
		w.timer.Reset(w.tick)
		return
	}
	w.armed.Store(false)
	if w.bark(func(int64) bool { return false }) { // it began while it was not clear that we rest
		w.arm()
	}
}

// close ends all waits, and those that begin later.
func (w *watchdog) close() {
	w.closed.Store(true)
	w.timer.Stop()
	w.bark(func(int64) bool { return true })
}

// bark ends the waits that over says so of. It reports whether there are others that
// are bounded.
func (w *watchdog) bark(over func(since int64) bool) (others bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for in := range w.mu.inboxes {
		switch since := in.since.Load(); {
		case since == sinceNever || since == sinceEnded:
		case !over(since):
			others = others || since != sinceAlone
		case in.since.CompareAndSwap(since, sinceEnded):
			select {
			case in.ch <- nil:
			default: // there is no room, so there is no need to wait
				in.lost.Add(1)
			}
		}
	}
	return others
}
