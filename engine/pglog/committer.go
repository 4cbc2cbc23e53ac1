package pglog

import (
	"context"
	"hash/maphash"
	"runtime"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
)

// committer gathers the batches that wait and sends them to the server as groups: one
// call, one transaction and one fsync for all of a group. One goroutine, run, does so;
// docs/decisions/0021 says why the engines share no queue.
//
// Invariants: a batch in the queue is queued, or left by its caller, and then the next pick
// drops it. Stages change under mu. The slices of a batch are read under mu while it is queued,
// and in the stages encoding and deciding, during which its caller waits, whatever becomes of
// its context.
type committer struct {
	l    *Log
	seed maphash.Seed
	done chan struct{} // closed when the goroutine has ended
	// several: the last group had more batches than one. Only the goroutine has it.
	several bool
	mu      struct {
		sync.Mutex
		queue  []*waiter
		closed bool
	}
	work  sync.Cond // the queue has grown, or the committer was closed
	state sync.Cond // a waiter is no longer being encoded
}

// stage is how far a batch has come.
type stage uint8

const (
	queued   stage = iota
	encoding       // its slices are being read
	sent           // its slices are free, the server has it
	deciding       // its outcome is known and its slices are read once more
	finished
	left // the caller has gone
)

// waiter is a batch that somebody waits for.
type waiter struct {
	batch   *mainstem.Batch
	began   time.Time // when the caller began to wait
	receipt mainstem.Receipt
	err     error
	done    chan struct{}

	// What is known of the batch when its caller has gone.
	writes, conditions, bytes int
	id                        string

	alone  bool  // it edits history, creates spaces or has a time of its own
	ensure bool  // it must create its spaces first
	tries  int   // that failed
	doubt  bool  // an earlier try may still be written; under the committer's mutex
	stage  stage // under the committer's mutex
}

// A group takes no more than this, unless its first batch has more.
const (
	groupBatches = 512
	groupWrites  = 8 << 10
	groupBytes   = 4 << 20
)

func (c *committer) start(l *Log) {
	c.l, c.seed, c.done = l, maphash.MakeSeed(), make(chan struct{})
	c.work.L, c.state.L = &c.mu, &c.mu
	go c.run()
}

// close refuses new batches and waits until those queued have their outcome.
func (c *committer) close() {
	c.mu.Lock()
	c.mu.closed = true
	c.work.Signal()
	c.mu.Unlock()
	<-c.done
}

// Commit implements [mainstem.Log]. Batches that wait at the same time share one round
// trip and one fsync. Once a batch was sent, the end of ctx returns with its outcome unknown.
func (l *Log) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if err := b.Validate(l.opts.Limits); err != nil {
		return mainstem.Receipt{}, err
	}
	if ctx.Err() != nil {
		return mainstem.Receipt{}, mainstem.Ended(ctx, "commit", time.Time{}, "").WithOutcome(mainstem.NotWritten)
	}
	w := &waiter{began: time.Now(), batch: b, done: make(chan struct{}), writes: b.Len(), conditions: len(b.Conditions()), bytes: sizeOf(b), id: b.ID}
	w.ensure = l.known.lacks(b)
	w.alone = w.ensure || edits(b) || !b.Time.IsZero()
	if !l.committer.enqueue(w) {
		return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindClosed, Op: "commit", Outcome: mainstem.NotWritten}
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		if err := l.committer.leave(ctx, w); err != nil {
			return mainstem.Receipt{}, err
		}
	}
	return w.receipt, b.Explained(ctx, w.err)
}

func edits(b *mainstem.Batch) bool {
	for i := range b.Writes() {
		if b.Writes()[i].Op >= mainstem.OpPurge {
			return true
		}
	}
	return false
}

func (c *committer) enqueue(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return false
	}
	c.mu.queue = append(c.mu.queue, w)
	c.work.Signal()
	return true
}

// leave takes the caller of w out, whose ctx has ended. It returns nil if the outcome
// came first. It waits while the slices of the batch are being read.
func (c *committer) leave(ctx context.Context, w *waiter) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w.stage == encoding || w.stage == deciding {
		c.state.Wait()
	}
	if w.stage == finished {
		return nil
	}
	e := mainstem.Ended(ctx, "commit", w.began, "PostgreSQL to commit")
	e.Outcome = mainstem.NotWritten
	if w.stage == sent || w.doubt {
		e.Outcome = mainstem.Unknown
	}
	w.stage = left
	return e
}

// run is the goroutine of the committer.
func (c *committer) run() {
	defer close(c.done)
	for {
		group := c.take()
		if group == nil {
			return
		}
		c.commit(group)
	}
}

// take waits for batches and returns those of the next group, nil when the committer
// is closed and nothing is left.
func (c *committer) take() []*waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.several {
			c.gatherLocked()
		}
		if group := c.pickLocked(); len(group) > 0 {
			c.several = len(group) > 1
			return group
		}
		if c.mu.closed {
			return nil
		}
		c.work.Wait()
	}
}

// gatherRounds bounds how often a group waits for goroutines that are ready to run.
const gatherRounds = 8

// gatherLocked lets goroutines that are ready to run go first, as long as that brings
// batches: the callers of the last group often come with their next. Without it the first
// of them would be a group of its own, and the others would wait for it. A caller that is
// alone is not made to wait.
func (c *committer) gatherLocked() {
	for range gatherRounds {
		before := len(c.mu.queue)
		if before == 0 {
			return
		}
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
		if len(c.mu.queue) == before {
			return
		}
	}
}

// pickLocked removes the batches of a group from the queue. A batch with a condition on
// a key that an earlier one of the group writes stays behind: conditions are tested
// before the group. So does one with an ID that is in the group.
func (c *committer) pickLocked() []*waiter {
	var group, rest []*waiter
	var writes, bytes int
	p := picked{seed: c.seed}
	for i, w := range c.mu.queue {
		if w.stage == left {
			continue
		}
		if len(group) > 0 {
			if group[0].alone || w.alone || len(group) == groupBatches || writes+w.writes > groupWrites || bytes+w.bytes > groupBytes {
				rest = append(rest, c.mu.queue[i:]...)
				break
			}
			if p.clash(w.batch) {
				rest = append(rest, w)
				continue
			}
		}
		p.add(w.batch)
		writes, bytes = writes+w.writes, bytes+w.bytes
		w.stage = encoding
		group = append(group, w)
	}
	c.mu.queue = rest
	return group
}

func sizeOf(b *mainstem.Batch) (n int) {
	for i := range b.Writes() {
		n += len(b.Writes()[i].Key) + len(b.Writes()[i].Value)
	}
	return n
}

// picked knows what the batches of a group write, by hash: a false alarm only makes a
// batch wait for the next group.
type picked struct {
	seed maphash.Seed
	keys map[uint64]struct{}
	ids  map[string]struct{}
	late []*mainstem.Batch // picked, and not yet in keys
}

func (p *picked) hash(space string, key []byte) uint64 {
	return maphash.String(p.seed, space)*31 + maphash.Bytes(p.seed, key)
}

func (p *picked) add(b *mainstem.Batch) {
	p.late = append(p.late, b)
	if b.ID != "" {
		if p.ids == nil {
			p.ids = map[string]struct{}{}
		}
		p.ids[b.ID] = struct{}{}
	}
}

func (p *picked) clash(b *mainstem.Batch) bool {
	if _, ok := p.ids[b.ID]; ok && b.ID != "" {
		return true
	}
	if len(b.Conditions()) == 0 {
		return false
	}
	if p.keys == nil {
		p.keys = map[uint64]struct{}{}
	}
	for _, earlier := range p.late {
		for i := range earlier.Writes() {
			w := &earlier.Writes()[i]
			p.keys[p.hash(w.Space, w.Key)] = struct{}{}
		}
	}
	p.late = nil
	for i := range b.Conditions() {
		cond := &b.Conditions()[i]
		if _, ok := p.keys[p.hash(cond.Space, cond.Key)]; ok {
			return true
		}
	}
	return false
}
