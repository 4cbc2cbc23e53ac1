package pebblelog

import (
	"context"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// The commit path, from the caller of Commit to the receipt.
//
// # Roles
//
// Every change of the log, and everything that must not run concurrently with a change, is a
// waiter: a batch, or an internal job (a sweep, a change of a space, a snapshot, a backup). The
// goroutine that brings a waiter is its caller. There is no goroutine only for commits:
//
//   - If there is no leader, the caller becomes the leader. Its waiter never enters the queue.
//   - If there is one, the caller appends its waiter to the queue and waits for a signal.
//   - The leader commits one group: its own waiter, and waiters from the head of the queue up to
//     the limits of a group. It signals the callers of the group.
//   - Then, if the queue is not empty, the leader removes its head and makes the caller of that
//     waiter the next leader, by a signal with lead set. Otherwise there is no leader.
//
// A leader commits only the group with its own waiter, so no caller is delayed by batches that
// came later. A single committer takes the mutex of the queue three times and switches to no
// other goroutine; with many of them, one fsync serves all that wait.
//
// # Steps
//
// A group is split into runs (commitRun). A run is one Pebble batch and one frame, or neither if
// it changes nothing:
//
//	1. begin reads the clock once; apply tests the conditions of each batch against the outcome
//	   of all batches before it, and adds its changes (put.go, edit.go).
//	2. seal adds totals and feed blocks. The frame then has all changes that follow from its
//	   batches.
//	3. append writes the frame to the journal, and syncs it if a waiter of the run asks for it.
//	4. show makes the changes readable. The commit gate makes readers of them wait.
//	5. finish publishes totals, spaces and the position, opens the gate, wakes followers.
//	6. The leader signals the callers of the run.
//
// A crash before the frame is complete in the journal leaves nothing of the run, a crash after
// it all of the run: the next open replays the frame. Receipts are returned, and readers see
// records, only after step 3. So a crash that the requested durability survives cannot take
// either back. Positions are given in step 1. If a run fails in step 1, or if its frame is
// refused with nothing written, the positions are given again (abandon). After an error in any
// later step the log is read-only, so that no other frame can get the same positions.
//
// # Invariants of the queue
//
//   - There is at most one leader. Other goroutines do not touch the fields of Log that are the
//     leader's. The leadership passes to the next goroutine under mu, or with the signal.
//   - While there is no leader, the queue is empty. Only callers that find a leader append to
//     it, and a leader resigns only when it finds it empty; both hold mu.
//   - A waiter is in the queue, in the group of a leader, or done. It is taken out of the queue
//     under mu only. So a caller whose context ends either withdraws its waiter, which was then
//     not written, or finds it taken, and waits for its signal.
//   - A waiter that was taken from the queue gets exactly one signal. Its channel has room for
//     it, so the leader never blocks on a caller.
//   - receipt, err and lead belong to the leader until the signal, and to the caller from then
//     on.
//   - The queue is first in, first out, and versions and positions are given in that order.
//   - After closed is set nothing is appended. Waiters in the queue are committed; close waits
//     until there is no leader.
//
// # Rejected
//
//   - A goroutine that commits for all callers, as natslog and pglog have: it costs a single
//     committer two switches between goroutines, which matter if a commit does not wait for
//     fsync.
//   - A leader that continues until the queue is empty: under load its caller would get its own
//     receipt late, or never.
//   - A pause so that groups grow: a group grows by itself while the one before it is synced.
//   - Tests of conditions outside of the leader: it would have to repeat them.
//
// docs/decisions/0021-three-commit-queues.md says why the three engines share no queue.

// committer is the queue in front of the log.
type committer struct {
	mu struct {
		sync.Mutex
		// queue is oldest first. Empty unless leading.
		queue []*waiter
		// leading: there is a leader. It stays true while the leadership passes to the next
		// goroutine.
		leading bool
		closed  bool
		idle    chan struct{} // closed when there is no leader; nil unless Close waits for that
	}
	waiters sync.Pool // *waiter. One pool for each log: a channel made in a bubble of synctest must not leave it
}

// Limits of one group: they bound the latency of its first batch. A group is closed when it has
// exceeded groupBytes, so it may hold one more batch than fits.
const (
	groupBatches = 1024
	groupBytes   = 16 << 20 // of writes
)

// waiter is one batch or internal job on its way through the committer. Its caller sets the first
// fields before the waiter enters the queue; they do not change afterwards.
type waiter struct {
	batch *mainstem.Batch
	job   func(*tx) error // instead of a batch
	reads bool            // job only reads: it runs even when the log takes no commits
	frees bool            // job removes and writes next to nothing: it runs on a nearly full disk
	clock bool            // job exists to record a change of the clock
	op    string

	// The leader sets these before it sends to wake; the caller reads them after it has received.
	receipt mainstem.Receipt
	err     error         // if set, nothing of the waiter is published, and err has the outcome
	lead    bool          // the signal does not mean that the waiter is done, but that its caller is now the leader
	wake    chan struct{} // capacity 1; at most one signal is under way
}

// size returns the bytes of the writes of w.
func (w *waiter) size() (n int) {
	if w.batch != nil {
		for i := range w.batch.Writes() {
			n += w.batch.Writes()[i].Size()
		}
	}
	return n
}

// waiter returns a waiter without a batch.
func (c *committer) waiter() *waiter {
	if w, ok := c.waiters.Get().(*waiter); ok {
		return w
	}
	return &waiter{wake: make(chan struct{}, 1)}
}

// Commit implements [mainstem.Log]. The waiter can be reused after enqueue has returned: it is in
// no queue then, and its channel is empty.
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

// removal is [Log.exclusive] for jobs that free disk space; see removalFloor.
func (l *Log) removal(ctx context.Context, op string, job func(*tx) error) error {
	return l.enqueue(ctx, &waiter{job: job, frees: true, op: op, wake: make(chan struct{}, 1)})
}

// exclusive runs job alone in an indexed tx, at its place in the order of commits. Pebble has
// everything that was committed before (see commitRun). If job fails, none of its changes remain.
func (l *Log) exclusive(ctx context.Context, op string, job func(*tx) error) error {
	return l.enqueue(ctx, &waiter{job: job, op: op, wake: make(chan struct{}, 1)})
}

// between runs job, which must not write, between two commits: everything committed before is in
// Pebble and published, and nothing is committed until job returns.
func (l *Log) between(ctx context.Context, op string, job func()) error {
	run := func(*tx) error { job(); return nil }
	err := l.enqueue(ctx, &waiter{job: run, reads: true, op: op, wake: make(chan struct{}, 1)})
	return withoutOutcome(err)
}

// enqueue returns when w is done or was withdrawn, with its error. Its goroutine may become the
// leader: at once if there is none, or when all waiters before w were taken.
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

// usableLocked returns an error if w must be refused. The caller holds committer.mu.
func (l *Log) usableLocked(w *waiter) error {
	if l.committer.mu.closed {
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: w.op, Outcome: mainstem.NotWritten}
	}
	if w.reads {
		return nil
	}
	return l.writable(w.op)
}

// await waits until w is done (true), or until its caller is the leader (false). A context that
// ends after w was taken has no effect. In particular the caller still leads when it is made the
// leader, since the waiters behind it have no other one.
func (l *Log) await(ctx context.Context, w *waiter) (bool, error) {
	began := time.Now()
	select {
	case <-w.wake:
	case <-ctx.Done():
		if l.committer.withdraw(w) {
			return true, mainstem.Ended(ctx, w.op, began, "the commits before it").WithOutcome(mainstem.NotWritten)
		}
		<-w.wake // w was taken: its signal has been or will be sent
	}
	if w.lead {
		w.lead = false
		return false, nil
	}
	return true, w.err
}

// withdraw removes w from the queue. It returns false if w is not there any more.
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

// lead commits w and the waiters behind it as one group, and then makes the next caller the
// leader. Callers are signaled after their run, not after the group, so an edit of history late in
// a group does not delay the batches before it. w needs no signal: its caller is this goroutine.
//
// keyStates.rotate is called after the group, because a tx relies on the cache from its first
// batch to its last; see keyStateCache.
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

// take moves waiters from the head of the queue to group, in order, up to the limits of a group.
func (c *committer) take(group []*waiter) []*waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.queue) == 0 {
		return group
	}
	size, n := 0, 0
	for _, w := range group {
		size += w.size()
	}
	for _, w := range c.mu.queue {
		if len(group) >= groupBatches || size > groupBytes {
			break
		}
		size += w.size()
		group = append(group, w)
		n++
	}
	c.mu.queue = append(c.mu.queue[:0], c.mu.queue[n:]...)
	return group
}

// commitRun commits as many waiters from the front of group as can share one Pebble batch, at
// least one, and returns their number. It sets their outcomes.
//
// Batches that only append share a plain tx, up to and including the first one that creates a
// space. If conditions of such a batch fail, it has not changed the tx yet, and the others go on
// without it. If reading the state of a key fails in the middle of a batch, the whole run fails
// (tx.broken). Every other waiter has an indexed tx of its own, which is abandoned alone if it
// fails. An indexed tx reads from Pebble and from itself, so the hot tier is drained first.
//
// On a disk that is nearly full, either all waiters of a run remove or none does: the two have
// different limits (checkSpace), and a refused put must not make a delete fail.
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
		prepare = l.drainHot // an indexed tx reads from Pebble
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

// fail gives err to all waiters of run that have no error of their own.
func fail(run []*waiter, err error) {
	for _, w := range run {
		if w.err == nil {
			w.err = err
		}
	}
}

// givenTime returns the time that b asks for, in unix ns, or 0 if it asks for none.
func givenTime(b *mainstem.Batch) int64 {
	if b == nil || b.Time.IsZero() {
		return 0
	}
	return b.Time.UnixNano()
}

// isPlain reports whether w can share a plain tx with others. Jobs cannot, and neither can batches
// with a time of their own, since a tx has one time. For a write it depends on the policy of its
// space: the present policy, or the one with which the batch itself would create the space. An
// earlier batch of the run cannot have created it with another policy, since a run ends with a
// batch that creates a space.
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

// durability returns the durability that w asks for.
func (l *Log) durability(w *waiter) mainstem.Durability {
	if w.batch != nil && w.batch.Durability != mainstem.DefaultDurability {
		return w.batch.Durability
	}
	return l.opts.Durability
}

// finish makes a durable tx visible and wakes followers. The order matters:
//
//   - Receipts get their time before anything is visible; the leader signals the callers later.
//   - publish runs before the position moves: policies, marks of the clock and other changes are
//     in force when the first record that depends on them can be read.
//   - newest and latest, which describe the newest record, move before the position.
//   - The gate opens after show, since readers that it lets pass rely on head and totals.
//   - Followers are woken last. A follower that was registered before finds the new position when
//     it reads again; one that registers later reads after that anyway.
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

// show makes the tx visible at once: no reader sees the totals of a space without its records, or
// records without the totals. It holds the locks of all touched spaces while it stores the
// registry and the position. No other code holds two of these locks, so their order does not
// matter.
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
	for _, ts := range t.staged { // no defer: this runs in every commit
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

// withoutOutcome removes the outcome from errors of calls that write nothing.
func withoutOutcome(err error) error {
	if e, ok := err.(*mainstem.Error); ok && e.Outcome != mainstem.NoOutcome {
		return e.WithOutcome(mainstem.NoOutcome)
	}
	return err
}
