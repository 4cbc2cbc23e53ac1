package budget

import (
	"container/list"
	"fmt"
	"math"
	"sync"
	"time"
)

// Budget is a number of bytes that holds are taken from. Make one with [New] or
// [Budget.Child]. Nil has no limit. Its methods may be called from many goroutines.
type Budget struct {
	name   string
	limit  int64
	parent *Budget // nil: this is the root
	tree   *tree

	// The rest is under tree.mu.

	used    int64 // by holds of this budget and of its descendants. Invariant: ≥ 0
	over    *Hold // that was let go beyond the limit; nil: none is
	growing list.List
	new     list.List // of *waiter as growing, each in the order in which they came
	stuck   bool      // during one pass of serveLocked: somebody who came earlier wants its room

	waited   uint64 // acquisitions that had to wait
	refused  uint64 // acquisitions that ended without bytes
	recalled uint64 // holds that were recalled
}

// tree is what all budgets of one root share.
type tree struct {
	mu       sync.Mutex
	all      []*Budget // in the order in which they were made, parents before children
	sequence uint64    // of the last waiter
	waiting  int       // waiters of all budgets

	recallable list.List // of *Hold that can be recalled, the one without progress for longest first
	armed      bool      // press will run
}

// waiter is a hold that waits. Its fields do not change while it does.
type waiter struct {
	h        *Hold
	n        int64
	sequence uint64
	since    time.Time
	at       *list.Element
	ready    chan struct{} // closed when the hold has the bytes
}

// New returns the root of a tree: a budget of limit bytes, of which there is at least one.
// The name is for messages and metrics.
func New(name string, limit int64) *Budget {
	b := &Budget{name: name, limit: max(limit, 1), tree: new(tree)}
	b.tree.all = []*Budget{b}
	return b
}

// Child returns a budget of at most limit bytes out of b; 0 means as many as b has. The
// limits of children may be more than b has together. A child of nil is a root. If b has a
// child of that name, it is that one, whatever its limit: a server that is started again
// goes on with what the one before it had.
func (b *Budget) Child(name string, limit int64) *Budget {
	if b == nil {
		return New(name, limit)
	}
	if limit <= 0 || limit > b.limit {
		limit = b.limit
	}
	c := &Budget{name: b.name + "/" + name, limit: limit, parent: b, tree: b.tree}
	if b.parent == nil {
		c.name = name
	}
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	for _, there := range b.tree.all {
		if there.parent == b && there.name == c.name {
			return there
		}
	}
	b.tree.all = append(b.tree.all, c)
	return c
}

// Limit returns the bytes that the budget has; 0 for nil, which has no limit.
func (b *Budget) Limit() int64 {
	if b == nil {
		return 0
	}
	return b.limit
}

// Free returns the bytes that b and all its ancestors have left, less than 0 if a limit is
// exceeded; for nil as many as there can be.
func (b *Budget) Free() int64 {
	free := int64(math.MaxInt64)
	if b == nil {
		return free
	}
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	for a := b; a != nil; a = a.parent {
		free = min(free, a.limit-a.used)
	}
	return free
}

// Hold returns an empty hold of b. It need not be released as long as it is empty.
func (b *Budget) Hold() Hold { return Hold{of: b} }

// Stats is a budget at one moment.
type Stats struct {
	Name    string // of the root as given, of others the path below it
	Limit   int64  // bytes
	Used    int64  // bytes; of a parent with those of its children
	Waiting int    // holds that wait
	Waited  uint64 // acquisitions that had to wait since the budget was made
	Refused uint64 // acquisitions that ended without bytes: also those that do not wait
	// Recalled is how many holds the budget recalled, see [Hold.OnRecall].
	Recalled uint64
}

// Stats returns the statistics of b and of all budgets below it, b first; none for nil.
func (b *Budget) Stats() []Stats {
	if b == nil {
		return nil
	}
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	var out []Stats
	for _, c := range b.tree.all {
		if c.within(b) {
			out = append(out, Stats{c.name, c.limit, c.used, c.growing.Len() + c.new.Len(), c.waited, c.refused, c.recalled})
		}
	}
	return out
}

func (b *Budget) within(other *Budget) bool {
	for ; b != nil; b = b.parent {
		if b == other {
			return true
		}
	}
	return false
}

// ExhaustedError says that a budget did not have the bytes before the context ended.
type ExhaustedError struct {
	Budget string // its name
	Want   int64  // bytes that were asked for
	Used   int64  // bytes in use at that time
	Limit  int64
	Cause  error // of the context's end
}

// Error names the budget, what was wanted and what there is.
func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("no memory for %d bytes of %s: %d of %d bytes are in use (%v)", e.Want, e.Budget, e.Used, e.Limit, e.Cause)
}

// Unwrap returns why the wait ended.
func (e *ExhaustedError) Unwrap() error { return e.Cause }

// fitsLocked reports whether there is room for n more bytes in b and its ancestors,
// without overtaking those who wait for an ancestor.
func (b *Budget) fitsLocked(n int64) bool {
	for a := b; a != nil; a = a.parent {
		if n > a.limit-a.used || a != b && a.stuck {
			return false
		}
	}
	return true
}

// admitsLocked reports whether h may have n more bytes now, and whether it then goes
// beyond a limit because it has some already.
func (b *Budget) admitsLocked(h *Hold, n int64) (ok, over bool) {
	if b.fitsLocked(n) || b.used == 0 {
		return true, false
	}
	over = h.size > 0 && (b.over == nil || b.over == h)
	return over, over
}

// chargeLocked adds n bytes, which may be negative, to h.
func (b *Budget) chargeLocked(h *Hold, n int64) {
	h.size += n
	for a := b; a != nil; a = a.parent {
		a.used += n
	}
	if h.size > 0 {
		return
	}
	if b.over == h {
		b.over = nil
	}
	h.forgetRecallLocked()
}

// queue returns where a hold waits.
func (b *Budget) queue(h *Hold) *list.List {
	if h.size > 0 {
		return &b.growing
	}
	return &b.new
}

// firstLocked returns the waiter of b that is to be served next, nil if none waits.
func (b *Budget) firstLocked() *waiter {
	for _, q := range []*list.List{&b.growing, &b.new} {
		if e := q.Front(); e != nil {
			return e.Value.(*waiter)
		}
	}
	return nil
}

// waitLocked makes h wait for n bytes.
func (b *Budget) waitLocked(h *Hold, n int64) *waiter {
	t := b.tree
	t.sequence++
	t.waiting++
	w := &waiter{h: h, n: n, sequence: t.sequence, since: time.Now(), ready: make(chan struct{})}
	w.at = b.queue(h).PushBack(w)
	t.armLocked(Patience)
	return w
}

// leaveLocked takes w out of its queue. Its hold has the size that it had when it began
// to wait.
func (b *Budget) leaveLocked(w *waiter) {
	b.queue(w.h).Remove(w.at)
	b.tree.waiting--
}

// serveLocked gives bytes to those who wait, in the order of the package comment. A
// budget whose first waiter does not fit is stuck for the rest of the pass, and so is
// each ancestor that has no room for it: nobody overtakes that waiter there.
func (t *tree) serveLocked() {
	if t.waiting == 0 {
		return
	}
	for {
		b, w := t.nextLocked()
		if w == nil {
			break
		}
		ok, over := b.admitsLocked(w.h, w.n)
		if ok {
			b.leaveLocked(w)
			b.grantLocked(w.h, w.n, over)
			close(w.ready)
			continue
		}
		b.stuck = true
		for a := b.parent; a != nil; a = a.parent {
			a.stuck = a.stuck || w.n > a.limit-a.used
		}
	}
	for _, b := range t.all {
		b.stuck = false
	}
}

// nextLocked returns the waiter that came first of those who are first in a budget that
// is not stuck.
func (t *tree) nextLocked() (of *Budget, first *waiter) {
	for _, b := range t.all {
		if b.stuck {
			continue
		}
		if w := b.firstLocked(); w != nil && (first == nil || w.sequence < first.sequence) {
			of, first = b, w
		}
	}
	return of, first
}

// grantLocked gives h n more bytes.
func (b *Budget) grantLocked(h *Hold, n int64, over bool) {
	if over {
		b.over = h
	}
	b.chargeLocked(h, n)
}
