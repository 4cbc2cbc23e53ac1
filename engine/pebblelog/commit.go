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
// Everything that changes the log, or must not run beside a change, is a waiter: a batch, or
// an internal job (a sweep, a change of a space, a snapshot, a backup). The goroutine that
// brings a waiter is its caller. No goroutine exists for commits alone:
//
//   - A caller that finds nobody leading becomes the leader. Its waiter never enters the queue.
//   - A caller that finds a leader appends its waiter to the queue and waits for a signal.
//   - The leader takes from the head of the queue what fits into one group, its own waiter
//     first, commits it, and signals the callers of the group.
//   - Then, if the queue is not empty, the leader removes its head and makes the caller of
//     that waiter the next leader, by a signal with lead set. Otherwise nobody leads.
//
// A leader commits one group, the one with its own waiter, so no caller is kept for the
// batches of others that came later. A lone committer takes the mutex of the queue three
// times and switches to no other goroutine; with many of them, one fsync serves all that wait.
//
// # Steps
//
// A group is cut into runs (commitRun). A run is one Pebble batch and one frame, or neither if
// it changes nothing:
//
//  1. begin reads the clock once; apply tests the conditions of each batch against the
//     outcome of all batches before it, and adds its changes (put.go, edit.go).
//  2. seal adds totals and feed blocks: the frame has all that follows from its batches.
//  3. append writes the frame to the journal, and syncs it if a waiter of the run asks so.
//  4. show makes the changes readable, while the commit gate keeps readers from relying on them.
//  5. finish publishes totals, spaces and the position, opens the gate, wakes followers.
//  6. The leader signals the callers of the run.
//
// A crash before the frame is whole in the journal leaves nothing of the run, a crash after it
// all of it: the next open replays the frame. A receipt is given after step 3, and a reader
// sees a record after step 3, so neither can be taken back by a crash that the durability
// asked for survives. Positions are given in step 1; a run that fails in step 1, or whose
// frame is refused with nothing written, gives them back (abandon). After an error in any
// later step the log is read-only, so that no other frame can get the same positions.
//
// # Invariants of the queue
//
//   - At most one goroutine leads. What Log says is the leader's, other goroutines do not
//     touch. It passes from one leader to the next under mu, or with the signal.
//   - While nobody leads, the queue is empty: only callers that find a leader append to it, and
//     a leader resigns only when it finds it empty, both under mu.
//   - A waiter is in the queue, in the group of a leader, or done. Only the holder of mu moves
//     it out of the queue. So a caller whose context ends either withdraws its waiter, which
//     was then not written, or finds it taken, and waits for its signal.
//   - A waiter that was taken from the queue gets exactly one signal. Its channel has room for it,
//     so the leader never blocks on a caller.
//   - receipt, err and lead are the leader's until the signal, and the caller's from then on.
//   - The queue is first in, first out, and versions and positions are given in that order.
//   - After closed is set nothing is appended. What is in the queue is committed; close waits
//     until nobody leads.
//
// # Rejected
//
//   - A goroutine that commits for all, as natslog and pglog have: it costs a lone committer two
//     switches between goroutines, which count beside a commit without fsync.
//   - A leader that goes on until the queue is empty: under load its caller would get its own
//     receipt late, or never.
//   - Waiting for a moment so that groups grow: a group grows by itself while the one before
//     it is synced.
//   - Testing conditions outside of the lead: they would have to be tested again in it.
//
// docs/decisions/0021-three-commit-queues.md says why the three engines share no queue.

// committer is the queue in front of the log.
type committer struct {
	mu struct {
		sync.Mutex
		// queue is oldest first. Empty unless leading.
		queue []*waiter
		// leading: a goroutine is between becoming the leader and resigning. It stays true
		// while the lead passes from one goroutine to the next.
		leading bool
		closed  bool
		idle    chan struct{} // closed when nobody leads, if Close waits for it
	}
	waiters sync.Pool // *waiter, of this log alone: a channel that was made in a bubble of synctest must not come out of it
}

// Limits of one group: they bound the latency of the first batch in it. A group is closed
// when it has exceeded groupBytes, so it may have one batch more than that.
const (
	groupBatches = 1024
	groupBytes   = 16 << 20 // of writes, without those of the leader's own batch
)

// waiter is one batch or internal job on its way through the committer. Its caller sets the
// first part before it enters the queue; nobody changes that part afterwards.
type waiter struct {
	batch *mainstem.Batch
	job   func(*tx) error // instead of a batch
	reads bool            // job only reads: it runs even when nothing can be written
	frees bool            // job writes next to nothing and removes: it runs on a nearly full disk
	clock bool            // job is there to note what the clock shows
	op    string

	// The leader sets these before it sends to wake, the caller reads them after it has received.
	receipt mainstem.Receipt
	err     error         // set: nothing of it is published, and err has its outcome
	lead    bool          // the signal does not mean that the waiter is done, but that its caller leads
	wake    chan struct{} // capacity 1; at most one signal is under way
}

// waiter returns one that has no batch yet.
func (c *committer) waiter() *waiter {
	if w, ok := c.waiters.Get().(*waiter); ok {
		return w
	}
	return &waiter{wake: make(chan struct{}, 1)}
}

// Commit implements [mainstem.Log]. The waiter may be used again when enqueue has returned:
// it is in no queue then, and its channel is empty.
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

// removal is [Log.exclusive] for jobs that free disk space: see removalFloor.
func (l *Log) removal(ctx context.Context, op string, job func(*tx) error) error {
	return l.enqueue(ctx, &waiter{job: job, frees: true, op: op, wake: make(chan struct{}, 1)})
}

// exclusive runs job alone in an indexed tx, in its place in the order of commits. Pebble has
// everything that was committed before it (see commitRun). If job fails, nothing of it remains.
func (l *Log) exclusive(ctx context.Context, op string, job func(*tx) error) error {
	return l.enqueue(ctx, &waiter{job: job, op: op, wake: make(chan struct{}, 1)})
}

// between runs job, which writes nothing, between two commits: Pebble has everything that was
// committed before, all of it is published, and nothing is added until job returns.
func (l *Log) between(ctx context.Context, op string, job func()) error {
	run := func(*tx) error { job(); return nil }
	err := l.enqueue(ctx, &waiter{job: run, reads: true, op: op, wake: make(chan struct{}, 1)})
	return withoutOutcome(err)
}

// enqueue returns when w is done or was withdrawn, with its error. It may make its goroutine the
// leader: at once if there is none, or later, when all waiters before w were taken.
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

// await waits until w is done (true), or until it is w's turn to lead (false). A context that
// ends after w was taken changes nothing any more: it also leads if it is its turn, since
// the queue behind it has no other leader.
func (l *Log) await(ctx context.Context, w *waiter) (bool, error) {
	began := time.Now()
	select {
	case <-w.wake:
	case <-ctx.Done():
		if l.committer.withdraw(w) {
			return true, mainstem.Ended(ctx, w.op, began, "the commits before it").WithOutcome(mainstem.NotWritten)
		}
		<-w.wake // it has been taken: the signal is sent or will be
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

// lead commits w and what waits behind it, and passes the lead on. Callers are signaled after
// their run, not after the group: an edit of history late in a group does not delay the
// batches before it. w needs no signal: its caller is this goroutine.
//
// keyStates.rotate comes after the group, since a tx relies on the cache from its first batch
// to its last; see keyStateCache.
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

// take moves waiters from the head of the queue to group, in their order, up to the limits of
// a group.
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
//
// Batches that only append share a plain tx, up to and with the first one that creates a space.
// A batch in it either fails in its conditions, before it has changed the tx, and the others go
// on without it; or reading the state of a key fails in the middle of it, and then the run
// fails as a whole (tx.broken). Everything else has a tx of its own, an indexed one, and is
// thrown away alone if it fails. An indexed tx reads from Pebble and from itself, so Pebble gets
// the hot tier's groups first.
//
// On a disk that is nearly full, a run has only waiters that remove or only others: the two
// have different limits (checkSpace), and a refused put must not take a delete with it.
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

// isPlain reports whether w can share a plain tx with others. Jobs cannot, nor batches with a
// time of their own, since a tx has one time. Whether a write can depends on the policy of its
// space: the present one, or the one with which the batch itself would create the space. No
// earlier batch of the run creates it with another one, since a run ends with a batch that
// creates a space.
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

// finish makes a durable tx visible and wakes followers. Its order matters:
//
//   - Receipts get their time before anything is visible; callers are signaled by the leader.
//   - publish runs before the position moves: policies, marks of the clock and the like are in
//     force when the first record that depends on them can be read.
//   - newest and latest, which describe the newest record, move before the position.
//   - The gate opens after show, since readers behind it rely on head and totals.
//   - Followers are woken last: a follower that was registered before finds the new position
//     when it looks, and one that registers later looks after that anyway.
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
// records, or records without the totals. It holds the locks of all touched spaces while it
// stores the registry and the position. No other code holds two of these locks, so their
// order does not matter.
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
