package natslog

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/wake"
)

// groupBytes is how much waiting batches are put into one frame, about; a single
// batch may be larger.
const groupBytes = 256 << 10

// partBytes is how large a message becomes at most that holds more than one record:
// who reads one of them reads all.
const partBytes = 1 << 20

// groupBatches is how many batches are put into one frame at most.
const groupBatches = 1024

// request is something that wants to write: a batch, a change of a space, upkeep.
type request struct {
	ctx  context.Context
	op   string
	size int
	// began is when the caller began to wait.
	began time.Time
	time  int64 // of a batch that has one of its own, else 0
	// run evaluates the request. It may be called again, on a later state. sure means
	// that its answer does not depend on what other processes may have written just now.
	run  func(t *tx) (sure bool, err error)
	sure bool  // run said so, and it added nothing to the frame: err holds whatever becomes of that
	err  error // of run, then of the request
	done chan struct{}
	// finished says that done is closed. The committer owns it.
	finished bool
}

// queue holds the requests that wait for the committer, oldest first. One goroutine, commits,
// takes groups from its head; docs/decisions/0021 says why the engines share no queue.
//
// Invariants: a request is in waiting, in the group of the committer, or finished, so that
// withdraw takes out only what was not evaluated since it was put. After closed is set,
// waiting stays empty.
type queue struct {
	wake chan struct{} // capacity 1
	mu   struct {
		sync.Mutex
		waiting []*request
		closed  bool
		give    context.CancelFunc // ends the request to the servers that the committer waits for; nil: none
	}
}

// asking notes how the request that the committer waits for is ended.
func (q *queue) asking(give context.CancelFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.give = give
}

// giveUp ends the request that the committer waits for: one of its callers has left.
func (q *queue) giveUp() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.give != nil {
		q.mu.give()
	}
}

// put adds r, unless the log is closed.
func (q *queue) put(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.closed {
		return false
	}
	q.mu.waiting = append(q.mu.waiting, r)
	wake.Signal(q.wake)
	return true
}

// withdraw takes r out if it still waits.
func (q *queue) withdraw(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.mu.waiting, r)
	if i >= 0 {
		q.mu.waiting = slices.Delete(q.mu.waiting, i, i+1)
	}
	return i >= 0
}

// take returns the requests of the next frame, all of which have one time.
func (q *queue) take() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for n < len(q.mu.waiting) && n < groupBatches {
		r := q.mu.waiting[n]
		if n > 0 && (size+r.size > groupBytes || r.time != q.mu.waiting[0].time) {
			break
		}
		size += r.size
		n++
	}
	group := slices.Clone(q.mu.waiting[:n])
	q.mu.waiting = slices.Delete(q.mu.waiting, 0, n)
	return group
}

// close refuses later requests and returns those that wait.
func (q *queue) close() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.closed = true
	waiting := q.mu.waiting
	q.mu.waiting = nil
	return waiting
}

// Commit implements [mainstem.Log].
func (l *Log) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if err := b.Validate(l.opts.Limits); err != nil {
		return mainstem.Receipt{}, err
	}
	var receipt mainstem.Receipt
	r := &request{ctx: ctx, op: "commit", done: make(chan struct{}), run: func(t *tx) (sure bool, err error) {
		receipt, err = t.commit(b)
		return t.s.receipts[b.ID] != nil || err != nil && mainstem.KindOf(err) == mainstem.KindInvalid, err
	}}
	for i := range b.Writes() {
		r.size += b.Writes()[i].Size()
	}
	if !b.Time.IsZero() {
		r.time = b.Time.UnixNano()
	}
	if err := l.request(r); err != nil {
		return mainstem.Receipt{}, b.Explained(ctx, err)
	}
	return receipt, nil
}

// do has the committer run something of about size bytes.
func (l *Log) do(ctx context.Context, op string, size int, run func(t *tx) (bool, error)) error {
	return l.request(&request{ctx: ctx, op: op, size: size, run: run, done: make(chan struct{})})
}

// request hands r to the committer and waits for its outcome. A context that ends
// takes it back only while it waits for its turn. When it is on its way, the committer is
// made to leave it, which takes lateAnswer or a little longer: if an answer is as near as
// that, it says more than an unknown outcome.
func (l *Log) request(r *request) error {
	ctx, op := r.ctx, r.op
	if l.ctx.Err() != nil || ctx.Err() != nil {
		return notWritten(l.ended(ctx, op, time.Time{}, ""))
	}
	r.began = time.Now()
	if err := l.broken(); err != nil {
		return notWritten(err)
	}
	if !l.queue.put(r) {
		return notWritten(&mainstem.Error{Kind: mainstem.KindClosed, Op: op, Err: errClosed})
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if l.queue.withdraw(r) {
			return notWritten(l.ended(ctx, op, r.began, "the commits before it"))
		}
		again := time.NewTicker(lateAnswer)
		defer again.Stop()
		for {
			select {
			case <-r.done:
				return r.err
			case <-again.C:
				l.queue.giveUp()
			}
		}
	}
	return r.err
}

// commits is the goroutine that writes.
func (l *Log) commits() {
	defer l.running.Done()
	for {
		select {
		case <-l.queue.wake:
			for group := l.queue.take(); len(group) > 0; group = l.queue.take() {
				l.commitGroup(group)
			}
		case <-l.stopping:
			for _, r := range l.queue.close() {
				r.finish(notWritten(&mainstem.Error{Kind: mainstem.KindClosed, Op: r.op, Err: errClosed}))
			}
			return
		}
	}
}

// finish ends r, unless its caller has left before.
func (r *request) finish(err error) {
	if r.finished {
		return
	}
	r.err, r.finished = err, true
	close(r.done)
}

// commitGroup evaluates requests and has the stream take what they lead to, again
// and again until no other process comes between.
func (l *Log) commitGroup(group []*request) {
	deadline := time.Now().Add(l.opts.Timeout)
	for attempt := 0; ; attempt++ {
		if err := l.broken(); err != nil { // its state is not to be written on
			l.failAll(group, notWritten(err))
			return
		}
		f, last, before := l.evaluate(group)
		var err error
		switch {
		case len(f.facts) > 0:
			err = l.place(group, f, f.encode(min(l.limit, partBytes), before), last, deadline)
		case slices.ContainsFunc(group, func(r *request) bool { return !r.sure }):
			err = l.confirm(group, last, deadline)
		}
		if err == nil {
			for _, r := range group {
				r.finish(r.err)
			}
			return
		}
		if group = slices.DeleteFunc(group, func(r *request) bool { return r.finished }); len(group) == 0 {
			return
		}
		if len(group) > 1 && isRefused(err) {
			for i := range group {
				l.commitGroup(group[i : i+1])
			}
			return
		}
		if !errors.Is(err, errAgain) {
			l.failAll(group, err)
			return
		}
		if time.Now().After(deadline) {
			l.failAll(group, mainstem.Refusef(mainstem.KindUnavailable, "commit", "other processes wrote first, %d times in %v", attempt+1, l.opts.Timeout))
			return
		}
		if attempt > 2 { // several processes write: give each a chance
			l.pause(rand.N(min(time.Duration(attempt)*time.Millisecond, 50*time.Millisecond)))
		}
	}
}

// isRefused reports whether err says that a frame was not written for what it is, such as its
// size: each of its requests may be fine alone.
func isRefused(err error) bool {
	var e *mainstem.Error
	return errors.As(err, &e) && e.Kind == mainstem.KindInvalid && e.Outcome == mainstem.NotWritten
}

// failAll ends all requests of a group that failed with err.
func (l *Log) failAll(group []*request, err error) {
	for _, r := range group {
		l.fail(r, err)
	}
}

// fail ends a request whose group failed with err. One whose answer depends neither on what
// the log holds nor on the frame keeps its own.
func (l *Log) fail(r *request, err error) {
	if r.finished {
		return
	}
	if r.sure {
		r.finish(r.err)
		return
	}
	var e *mainstem.Error
	if errors.As(err, &e) {
		c := *e
		c.Op = r.op
		if r.err != nil { // it failed too, on a state that may not be the newest
			c.Outcome = mainstem.NotWritten
		}
		if r.ctx.Err() != nil && c.Kind == mainstem.KindUnavailable {
			c.Kind, c.Err = mainstem.KindCanceled, mainstem.Ended(r.ctx, r.op, r.began, "the stream to take the commit").Err
		}
		err = &c
	}
	r.finish(err)
}

// leave ends the requests of a group whose callers have left, with the error err, and
// reports whether there were any. The others go on: keys in f, the bytes of which belong to
// the callers, are copied. f may be nil.
func (l *Log) leave(group []*request, f *frame, err error) (left bool) {
	if !slices.ContainsFunc(group, func(r *request) bool { return !r.finished && r.ctx.Err() != nil }) {
		return false
	}
	if f != nil {
		for i := range f.facts {
			f.facts[i].key = bytes.Clone(f.facts[i].key)
		}
	}
	for _, r := range group {
		if r.ctx.Err() != nil {
			l.fail(r, err)
		}
	}
	return true
}

// abandoned reports whether nobody waits for the group any more.
func abandoned(group []*request) bool {
	return !slices.ContainsFunc(group, func(r *request) bool { return r.ctx.Err() == nil })
}

// errAgain says that the group must be evaluated again, on a newer state.
var errAgain = errors.New("the log has moved on")

// evaluate runs a group on the state. It returns what is to be written, directly
// after the message last, and the position of the newest record before it.
func (l *Log) evaluate(group []*request) (f *frame, last, before uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mindClockLocked()
	now := l.nowLocked()
	if given := group[0].time; given != 0 {
		now.Now = min(max(given, l.st.clock.latest), now.Now)
	}
	l.claim = claim{seq: l.st.seq + 1}
	t := newTx(&l.st, now, l.limit)
	for _, r := range group {
		if r.ctx.Err() != nil {
			r.sure, r.err = true, notWritten(l.ended(r.ctx, r.op, r.began, "the commits before it"))
			continue
		}
		t.begin()
		before := len(t.facts)
		if r.sure, r.err = r.run(t); r.err != nil {
			r.err = notWritten(r.err)
			t.rollback()
		}
		r.sure = r.sure && len(t.facts) == before
	}
	f = &frame{nonce: rand.Uint64(), time: l.st.time, clock: l.st.time, head: t.head, nextID: t.nextID, facts: t.facts}
	if t.head > l.st.head {
		f.time, f.clock = t.time, t.now.Now
		if c := &l.st.clock; c.passed > f.clock && c.latest < c.passed {
			f.passed = c.passed
		}
	}
	return f, l.st.seq, l.st.head
}

// place has the stream take a frame directly after the message last. It returns
// errAgain if another frame took that place. Its other errors have an outcome. It tries
// until the deadline, or until nobody in the group waits any more.
func (l *Log) place(group []*request, f *frame, parts []part, last uint64, deadline time.Time) error {
	if n := len(parts); n > l.opts.MaxMessages {
		return mainstem.Refusef(mainstem.KindInvalid, "commit", "the batch takes %d messages of at most %d bytes: the limit is %d", n, l.limit, l.opts.MaxMessages).
			WithHint("split the batch, or raise max_payload of the NATS server")
	}
	outcome := mainstem.NotWritten
	for {
		v, err := l.publish(parts, last)
		switch v {
		case taken:
			l.applyWritten(f, parts, last)
			return nil
		case passed:
			if outcome == mainstem.NotWritten {
				l.awaitSeq(l.root, last+1, time.Now().Add(awaitOther))
				return errAgain
			}
		case refused:
			if outcome == mainstem.NotWritten && mainstem.KindOf(err) == mainstem.KindInvalid {
				return notWritten(err)
			}
		case unsure:
			outcome = mainstem.Unknown
		}
		if outcome == mainstem.Unknown {
			fate := l.resolve(f.nonce)
			if fate == undecided && v == passed {
				fate = l.inspect(f, parts, last)
			}
			switch fate {
			case ours:
				return nil
			case others:
				return errAgain
			case lost:
				return unknown(mainstem.Errorf(mainstem.KindUnavailable, "commit", "no answer came, and message %d, which may be this commit, was deleted before it was seen", last+1))
			}
		}
		if !abandoned(group) {
			l.leave(group, f, withOutcome(mapError("commit", err), outcome))
		}
		if !time.Now().Before(deadline) || abandoned(group) || !l.pause(retryPause) {
			e := mapError("commit", err)
			if outcome == mainstem.Unknown {
				return unknown(e)
			}
			return withOutcome(e, outcome)
		}
	}
}

// How a commit waits before it tries again.
const (
	awaitOther = 500 * time.Millisecond // for the frame that took the place
	retryPause = 50 * time.Millisecond  // while the server cannot answer
	lateAnswer = 100 * time.Millisecond // for an answer after its caller's context has ended
)

// unknown is the error e of a commit whose outcome is not known.
func unknown(e *mainstem.Error) error {
	e.Hint = "commit it again with a batch ID: it is written once at most"
	return withOutcome(e, mainstem.Unknown)
}

// fate is what became of a frame whose publish was not answered.
type fate int

const (
	undecided fate = iota // its place is free, or the message there has not been seen
	ours                  // it was written
	others                // another frame has its place: it was not and will not be written
	lost                  // what had its place left the stream unseen: nobody can tell any more
)

// resolve finds out what became of a frame: its place shows it as soon as anybody has taken it.
func (l *Log) resolve(nonce uint64) fate {
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch {
	case l.claim.missed:
		return lost
	case l.claimOpenLocked():
		return undecided
	case l.claim.nonce == nonce:
		return ours
	}
	return others
}

// claimOpenLocked reports whether it is not yet known which frame, if any, begins at the place
// that is claimed.
func (l *Log) claimOpenLocked() bool {
	return l.st.seq < l.claim.seq || l.pending != nil && l.pending.seq == l.claim.seq
}

// inspect finds out the same when the server says that the place is taken and the tail
// has not yet seen by which frame: it asks the leader for the messages there. A frame is
// there only if all of its messages are. One that the leader does not show, because it
// is on its way or deleted already, says nothing: the tail has to show it.
func (l *Log) inspect(f *frame, parts []part, last uint64) fate {
	for i := range parts {
		if i > 0 && i < len(parts)-1 {
			continue // the stream takes messages in order
		}
		p, err := l.pieceAt(last + 1 + uint64(i))
		if err != nil {
			return undecided
		}
		if p.nonce != f.nonce || int(p.part) != i {
			if i == 0 {
				return others
			}
			return undecided
		}
	}
	l.applyWritten(f, parts, last)
	return ours
}

// pieceAt asks the leader once for the facts of a message.
func (l *Log) pieceAt(seq uint64) (piece, error) {
	msg, err := l.askLeader(l.root, seq)
	if err != nil {
		return piece{}, err
	}
	head, err := msg.header()
	if err != nil {
		return piece{}, err
	}
	return decodeHeader(head.Get(header))
}

// applyWritten makes a frame true that the stream has taken.
func (l *Log) applyWritten(f *frame, parts []part, last uint64) {
	for i, p := range parts {
		if len(p.payload) > 0 {
			l.cache.put(last+1+uint64(i), p.payload)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrote = time.Now()
	if l.st.seq >= last+uint64(len(parts)) {
		return // the tail was faster
	}
	if l.pending != nil && l.pending.seq <= last {
		l.abandon()
	}
	l.pending = nil // or it is this one
	l.applyLocked(f, &unit{seq: last + 1, parts: uint32(len(parts)), nonce: f.nonce})
}

// applyLocked makes the facts of f true and wakes who waits for them.
func (l *Log) applyLocked(f *frame, u *unit) {
	if u.seq == l.claim.seq {
		l.claim.nonce = u.nonce
	}
	before := l.st.clock.setBacks
	for _, sp := range l.st.apply(f, u) {
		l.followers.Wake(sp.name, wake.Signal)
	}
	if l.st.clock.setBacks != before && l.loaded {
		l.warnSetBack()
	}
	l.seqLocked()
}

// confirm returns nil if the message last is the newest of the stream, else, when
// the state has caught up or a caller has left, errAgain. It tries until the deadline, or
// until nobody in the group waits any more: nothing is written, so nobody is left in doubt.
func (l *Log) confirm(group []*request, last uint64, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(l.ctx, deadline)
	defer cancel()
	l.queue.asking(cancel)
	defer l.queue.asking(nil)
	ended := func(err error) error {
		if l.ctx.Err() == nil {
			err = unanswered(err)
		}
		e := notWritten(mapError("commit", err))
		if !abandoned(group) && l.leave(group, nil, e) {
			return errAgain
		}
		return e
	}
	newest, err := l.newestSeq(ctx)
	if err != nil {
		return ended(err)
	}
	if newest <= last {
		return nil
	}
	if err := l.awaitSeq(ctx, newest, deadline); err != nil {
		return ended(err)
	}
	return errAgain
}

// pause waits for d and reports whether the log still runs.
func (l *Log) pause(d time.Duration) bool {
	return backoff.Sleep(l.ctx, d)
}
