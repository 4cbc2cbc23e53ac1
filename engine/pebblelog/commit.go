package pebblelog

import (
	"context"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// committer is the queue in front of the log. The first goroutine to find
// nobody leading becomes the leader: it takes everything that waits as one group,
// writes and syncs it once, wakes the others and hands the lead to the one that
// queued meanwhile. So a lone committer pays for no hand-over, and one fsync
// serves all that wait.
type committer struct {
	mu struct {
		sync.Mutex
		queue   []*waiter
		leading bool
		closed  bool
		idle    chan struct{} // closed when nobody leads, if Close waits for it
	}
	waiters sync.Pool // *waiter, of this log alone: a channel that was made in a bubble of synctest must not come out of it
}

// Limits of one group: they bound the latency of the first batch in it.
const (
	groupBatches = 1024
	groupBytes   = 16 << 20
)

// waiter is one batch or internal job on its way through the committer.
type waiter struct {
	batch *mainstem.Batch
	job   func(*tx) error // instead of a batch
	reads bool            // job only reads: it runs even when nothing can be written
	frees bool            // job writes next to nothing and removes: it runs on a nearly full disk
	clock bool            // job is there to note what the clock shows
	op    string

	receipt mainstem.Receipt
	err     error
	lead    bool          // the wake-up says: lead the queue
	wake    chan struct{} // capacity 1
}

// waiter returns one that has no batch yet.
func (c *committer) waiter() *waiter {
	if w, ok := c.waiters.Get().(*waiter); ok {
		return w
	}
	return &waiter{wake: make(chan struct{}, 1)}
}

// Commit implements [mainstem.Log].
func (l *Log) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if err := b.Validate(l.opts.Limits); err != nil {
		return mainstem.Receipt{}, err
	}
	w := l.committer.waiter()
	w.batch, w.op = b, "commit"
	err := l.enqueue(ctx, w)
	r := w.receipt
	w.batch, w.receipt, w.err = nil, mainstem.Receipt{}, nil
	l.committer.waiters.Put(w)
	if err != nil {
		return mainstem.Receipt{}, b.Explained(ctx, err)
	}
	return r, nil
}

// removal is exclusive for jobs that free disk space: see removalFloor.
func (l *Log) removal(ctx context.Context, op string, job func(*tx) error) error {
	return l.enqueue(ctx, &waiter{job: job, frees: true, op: op, wake: make(chan struct{}, 1)})
}

// exclusive runs job alone in an indexed tx, in its place in the order of commits.
func (l *Log) exclusive(ctx context.Context, op string, job func(*tx) error) error {
	return l.enqueue(ctx, &waiter{job: job, op: op, wake: make(chan struct{}, 1)})
}

// between runs job, which writes nothing, between two commits.
func (l *Log) between(ctx context.Context, op string, job func()) error {
	run := func(*tx) error { job(); return nil }
	err := l.enqueue(ctx, &waiter{job: run, reads: true, op: op, wake: make(chan struct{}, 1)})
	return withoutOutcome(err)
}

func (l *Log) enqueue(ctx context.Context, w *waiter) error {
	if err := ctx.Err(); err != nil {
		return mainstem.Ended(ctx, w.op, time.Time{}, "").WithOutcome(mainstem.NotWritten)
	}
	c := &l.committer
	c.mu.Lock()
	if err := l.usableLocked(w); err != nil {
		c.mu.Unlock()
		return err
	}
	if c.mu.leading {
		c.mu.queue = append(c.mu.queue, w)
		c.mu.Unlock()
		if done, err := l.await(ctx, w); done {
			return err
		}
	} else {
		c.mu.leading = true
		c.mu.Unlock()
	}
	l.lead(w)
	return w.err
}

// usableLocked says whether w is taken; committer.mu is held.
func (l *Log) usableLocked(w *waiter) error {
	if l.committer.mu.closed {
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: w.op, Outcome: mainstem.NotWritten}
	}
	if w.reads {
		return nil
	}
	return l.writable(w.op)
}

// await waits until w is done (true), or until it is w's turn to lead (false).
func (l *Log) await(ctx context.Context, w *waiter) (bool, error) {
	began := time.Now()
	select {
	case <-w.wake:
	case <-ctx.Done():
		if l.committer.withdraw(w) {
			return true, mainstem.Ended(ctx, w.op, began, "the commits before it").WithOutcome(mainstem.NotWritten)
		}
		<-w.wake // it has been taken: its outcome is near
	}
	if w.lead {
		w.lead = false
		return false, nil
	}
	return true, w.err
}

// withdraw takes w out of the queue, if it is still there.
func (c *committer) withdraw(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, q := range c.mu.queue {
		if q == w {
			c.mu.queue = append(c.mu.queue[:i], c.mu.queue[i+1:]...)
			return true
		}
	}
	return false
}

// lead commits w and what waits behind it, and passes the lead on.
func (l *Log) lead(w *waiter) {
	group := l.group[:0]
	group = append(group, w)
	group = l.committer.take(group)
	l.group = group
	for rest := group; len(rest) > 0; {
		n := l.commitRun(rest)
		for _, done := range rest[:n] {
			if done != w {
				done.wake <- struct{}{}
			}
		}
		rest = rest[n:]
	}
	clear(group)
	l.keyStates.rotate()

	c := &l.committer
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.queue) > 0 {
		next := c.mu.queue[0]
		c.mu.queue = append(c.mu.queue[:0], c.mu.queue[1:]...)
		next.lead = true
		next.wake <- struct{}{}
		return
	}
	c.mu.leading = false
	if c.mu.idle != nil {
		close(c.mu.idle)
		c.mu.idle = nil
	}
}

// take moves waiters from the queue to group, up to the limits of a group.
func (c *committer) take(group []*waiter) []*waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	size, n := 0, 0
	for _, w := range c.mu.queue {
		if len(group) >= groupBatches || size > groupBytes {
			break
		}
		if w.batch != nil {
			for i := range w.batch.Writes() {
				size += w.batch.Writes()[i].Size()
			}
		}
		group = append(group, w)
		n++
	}
	c.mu.queue = append(c.mu.queue[:0], c.mu.queue[n:]...)
	return group
}

// commitRun commits as many waiters from the front of group as can share one
// Pebble batch, at least one, and returns how many. Their outcomes are set.
func (l *Log) commitRun(group []*waiter) int {
	n := 0
	for n < len(group) && l.isPlain(group[n]) && (!l.disk.short || group[n].removes() == group[0].removes()) {
		n++
		if l.creates(group[n-1]) {
			break
		}
	}
	indexed := n == 0
	if indexed {
		n = 1
	}
	run := group[:n]
	if err := l.writable("commit"); err != nil && !run[0].reads {
		fail(run, err)
		return n
	}
	prepare := l.keepPace
	if indexed {
		prepare = l.drainHot // it reads from Pebble
	}
	if err := prepare(); err != nil {
		if werr := l.writable("commit"); werr != nil {
			err = werr
		}
		fail(run, err)
		return n
	}
	t := &l.tx
	t.begin(indexed, givenTime(run[0].batch), run[0].batch != nil || run[0].clock)
	for _, w := range run {
		if w.job != nil {
			w.err = w.job(t)
		} else {
			w.err = t.apply(w)
		}
		w.err = withOutcome(mapError(w.op, w.err), mainstem.NotWritten)
		if w.err != nil && (indexed || t.broken != nil) {
			fail(run, withOutcome(mapError("commit", w.err), mainstem.NotWritten))
			t.abandon()
			return n
		}
	}
	t.seal()
	var err error
	if t.pb.Empty() {
		err = l.makeDurable(run, false)
	} else {
		err = l.write(t, run)
	}
	if err != nil {
		fail(run, err)
		t.abandon()
		return n
	}
	t.finish(run)
	return n
}

// fail gives err to all of run that have no error of their own.
func fail(run []*waiter, err error) {
	for _, w := range run {
		if w.err == nil {
			w.err = err
		}
	}
}

// givenTime returns the time that b asks for, unix ns, 0 if it asks for none.
func givenTime(b *mainstem.Batch) int64 {
	if b == nil || b.Time.IsZero() {
		return 0
	}
	return b.Time.UnixNano()
}

// isPlain reports whether w can share a plain tx with others. Whether a write can depends on
// the policy of its space. No earlier batch of the run creates that with another policy, since
// a run ends with a batch that creates a space.
func (l *Log) isPlain(w *waiter) bool {
	if w.job != nil || givenTime(w.batch) != 0 {
		return false
	}
	r := l.spaces.Load()
	var s *space
	for i := range w.batch.Writes() {
		wr := &w.batch.Writes()[i]
		if s == nil || s.name != wr.Space {
			s = r.byName[wr.Space]
		}
		if s != nil {
			if !plain(wr.Op, s.policy.Load()) {
				return false
			}
			continue
		}
		for j := range w.batch.Ensures() {
			if e := &w.batch.Ensures()[j]; e.Space == wr.Space && !plain(wr.Op, &e.Policy) {
				return false
			}
		}
		if wr.Op > mainstem.OpPurge || wr.Op == mainstem.OpPurge && len(w.batch.Ensures()) == 0 {
			return false
		}
	}
	return true
}

// creates reports whether w may create a space.
func (l *Log) creates(w *waiter) bool {
	for i := range w.batch.Ensures() {
		if l.spaces.Load().byName[w.batch.Ensures()[i].Space] == nil {
			return true
		}
	}
	return false
}

// durability returns what w asks for.
func (l *Log) durability(w *waiter) mainstem.Durability {
	if w.batch != nil && w.batch.Durability != mainstem.DefaultDurability {
		return w.batch.Durability
	}
	return l.opts.Durability
}

// finish makes a durable tx visible and wakes its callers and followers.
func (t *tx) finish(run []*waiter) {
	l := t.l
	for _, w := range run {
		if w.err == nil && w.batch != nil && !w.receipt.Duplicate {
			w.receipt.Time = time.Unix(0, t.time)
		}
		l.metrics.outcome(w)
	}
	for _, f := range t.publish {
		f()
	}
	if t.next > t.undo.next {
		t.last = t.time
		l.newest.Store(t.time)
		l.latest.Store(max(t.latest, t.Now))
	}
	t.show()
	l.commitGate.end()
	for _, ts := range t.staged {
		if ts.dirty {
			l.followers.Wake(ts.s.name, wake.Signal)
		}
		if ts.removed > 0 {
			l.reclaimer.count(ts.s, ts.removed)
		}
	}
	if t.expiry != 0 {
		l.sweeper.expiresAt(t.Hold.Trusted(t.expiry))
	}
	if t.limits {
		l.sweeper.limited()
	}
	t.reset()
}

// show makes the tx visible at once: nobody sees the totals of a space without its
// records, or records without the totals.
func (t *tx) show() {
	for _, ts := range t.staged {
		if ts.dirty {
			ts.s.mu.Lock()
			ts.s.mu.totals = ts.totals
			ts.s.traces = ts.traces
			ts.s.last.Store(ts.totals.Last)
		}
	}
	if len(t.created) > 0 || t.dropped != "" {
		t.l.spaces.Store(t.l.spaces.Load().with(t.created, t.dropped))
	}
	t.l.position.Store(t.next - 1)
	for _, ts := range t.staged { // no defer: this is part of every commit
		if ts.dirty {
			ts.s.mu.Unlock()
		}
	}
}

func withOutcome(err error, o mainstem.Outcome) error {
	if e, ok := err.(*mainstem.Error); ok && e.Outcome == mainstem.NoOutcome {
		return e.WithOutcome(o)
	}
	return err
}

// withoutOutcome is for calls that write nothing.
func withoutOutcome(err error) error {
	if e, ok := err.(*mainstem.Error); ok && e.Outcome != mainstem.NoOutcome {
		return e.WithOutcome(mainstem.NoOutcome)
	}
	return err
}
