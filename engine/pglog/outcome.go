package pglog

import (
	"slices"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// commit sends a group and gives each of its batches its outcome.
func (c *committer) commit(group []*waiter) {
	batches := make([]*mainstem.Batch, len(group))
	for i, w := range group {
		batches[i] = w.batch
	}
	var call *call
	if !group[0].ensure {
		call = encodeSingle(batches)
	}
	if call == nil {
		var err error
		if call, err = encode(batches, group[0].ensure); err != nil {
			c.fail(group, err, refused)
			return
		}
	}
	call.params[paramSync] = c.l.synchronous(batches)
	c.release(group)
	res, fate, err := c.l.send(c.l.life, call)
	if err != nil {
		c.retry(group, err, fate)
		return
	}
	c.distribute(group, call, res)
}

// release lets callers go: the call has copies of everything.
func (c *committer) release(group []*waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range group {
		w.stage = sent
	}
	c.state.Broadcast()
}

// decide begins to resolve w. It returns false if its caller has gone: then its batch
// must not be touched.
func (c *committer) decide(w *waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.stage == left {
		return false
	}
	w.stage = deciding
	return true
}

func (c *committer) finish(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.stage = finished
	close(w.done)
	c.state.Broadcast()
}

// fail gives all batches of a group the same error.
func (c *committer) fail(group []*waiter, err error, f fate) {
	for _, w := range group {
		if !c.decide(w) {
			continue
		}
		e := explain("commit", err)
		if c.l.life.Err() != nil {
			e = &mainstem.Error{Kind: mainstem.KindClosed, Op: "commit"}
		}
		if e.Outcome = mainstem.NotWritten; f == lost || w.doubt {
			e.Outcome = mainstem.Unknown
		}
		w.err = e
		c.finish(w)
	}
}

// retry queues those of a group again that may be tried again, and fails the others. A
// batch that may have been written already can be tried again if it has an ID.
func (c *committer) retry(group []*waiter, err error, f fate) {
	var repeated, failed []*waiter
	tries := 0
	for _, w := range group {
		w.tries++
		tries = max(tries, w.tries)
		if f == refused || f == lost && w.id == "" || w.tries > c.l.opts.Retries || c.l.life.Err() != nil {
			failed = append(failed, w)
		} else {
			repeated = append(repeated, w)
		}
	}
	c.fail(failed, err, f)
	c.requeue(repeated, f == lost)
	if len(repeated) > 0 {
		retryPolicy.Wait(c.l.life, tries)
	}
}

// requeue puts batches in front of the queue.
func (c *committer) requeue(group []*waiter, doubt bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range group {
		if w.stage != left {
			w.stage = queued
			w.doubt = w.doubt || doubt
		}
	}
	c.mu.queue = slices.Concat(group, c.mu.queue)
	c.state.Broadcast()
}

// retryPolicy is the pause before the next try, not quite as long as that of others that wait.
var retryPolicy = backoff.Policy{First: 20 * time.Millisecond, Max: time.Second, Jitter: 0.5}

// distribute gives each batch of a group its outcome and wakes those who follow.
func (c *committer) distribute(group []*waiter, call *call, res *result) {
	c.l.published(call, res)
	var again []*waiter
	conditions := 0
	for i, w := range group {
		before := conditions
		conditions += w.conditions
		failure, failed := res.failures[i]
		repeat, repeated := res.repeats[i]
		var receipt mainstem.Receipt
		var err error
		switch {
		case repeated:
			receipt = repeat.receipt()
		case !failed:
			receipt, err = res.receipt(w.writes)
		}
		if !c.decide(w) {
			continue
		}
		if failed {
			var retry bool
			if err, retry = c.refused(w, failure, call, before); retry {
				again = append(again, w)
				continue
			}
		}
		w.receipt, w.err = receipt, err
		c.finish(w)
	}
	c.requeue(again, false)
}

// refused returns the error of a batch that the server refused, or true if it was only
// refused because its space was dropped and it must be created anew.
func (c *committer) refused(w *waiter, f failure, call *call, before int) (error, bool) {
	if f.Space > 0 {
		name := call.names[f.Space-1]
		ensures := func(e mainstem.Ensure) bool { return e.Space == name }
		if !w.ensure && slices.ContainsFunc(w.batch.Ensures(), ensures) {
			w.ensure, w.alone = true, true
			return nil, true
		}
		e := &mainstem.Error{Kind: mainstem.KindNotFound, Op: "commit", Space: name, Outcome: mainstem.NotWritten}
		if w.doubt {
			e.Outcome = mainstem.Unknown
		}
		return e, false
	}
	e := f.explain(w.batch, before)
	if w.doubt {
		e.Outcome = mainstem.Unknown // an earlier try may still be on its way
	}
	return e, false
}

// published is called when a call was committed: followers learn of its records, the
// sweeper of those that expire, and the spaces that it wrote are known to exist.
func (l *Log) published(call *call, res *result) {
	last := res.base
	for _, v := range res.versions {
		if v != 0 {
			last++
		}
	}
	if last > res.base {
		l.hub.announce(last, call.touched)
		if call.ttl > 0 {
			l.sweeper.expiresAt(min(res.time, l.clock.now()) + call.ttl)
		}
	}
	missing := map[string]bool{}
	for _, f := range res.failures {
		if f.Space > 0 {
			missing[call.names[f.Space-1]] = true
			l.known.forget(call.names[f.Space-1])
		}
	}
	if len(missing) == 0 && len(res.failures) == 0 {
		l.known.learn(call.touched)
	}
}

// known are names of spaces that existed a short while ago. A batch that ensures and
// writes them is sent without their policies; if the server misses one, it is sent again.
type known struct {
	mu    sync.RWMutex
	names map[string]struct{}
}

// maxKnown bounds the memory of known; beyond, it begins anew.
const maxKnown = 1 << 16

func (k *known) learn(names []string) {
	k.mu.RLock()
	missing := slices.ContainsFunc(names, func(n string) bool { _, ok := k.names[n]; return !ok })
	k.mu.RUnlock()
	if !missing {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.names == nil || len(k.names) > maxKnown {
		k.names = map[string]struct{}{}
	}
	for _, n := range names {
		k.names[n] = struct{}{}
	}
}

func (k *known) forget(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.names, name)
}

// lacks reports whether b ensures a space that it does not write, or that is not known.
func (k *known) lacks(b *mainstem.Batch) bool {
	if len(b.Ensures()) == 0 {
		return false
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, e := range b.Ensures() {
		writes := func(w mainstem.Write) bool { return w.Space == e.Space }
		if _, ok := k.names[e.Space]; !ok || !slices.ContainsFunc(b.Writes(), writes) {
			return true
		}
	}
	return false
}
