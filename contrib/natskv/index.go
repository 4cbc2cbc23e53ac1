package natskv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// index is the keys of one bucket in memory, in order, and the values that the
// cache keeps. One feed tells it of every change; the store's own writes and reads
// are told to it at once.
//
// Invariant: an item never goes back. What arrives with a sequence below that of
// the item is older than what the item says, and is dropped. So it does not matter
// whether the feed or the writer itself is first to tell of a write, and what this
// store wrote or read is never unseen again.
//
// Sequences of different buckets of one name say nothing of each other: what was asked for
// while the bucket was another one is not taken in, see takes.
type index struct {
	stream *stream

	mu       sync.RWMutex
	keys     sorted
	foreign  map[string]struct{} // keys that the layout cannot have made
	state    indexState
	bucket   time.Time // when it was created, by what the feed has told; zero: all is yet to be told
	err      error     // why it is failed
	applied  uint64    // the feed has told everything up to this sequence
	fresh    time.Time // when the feed was last known to be up to date
	timed    int       // items that expire, at least
	cache    cache
	feed     *feed
	audited  time.Time // when the last audit ended
	swept    time.Time // when expired items were last removed
	auditing bool
	differs  int // audits in a row that found a difference

	changed chan struct{} // closed when any of this changes; nil if nobody waits
}

type indexState uint8

const (
	indexIdle    indexState = iota // nobody asked for it yet, or its bucket went away
	indexLoading                   // the feed tells of what is there
	indexReady                     // it has told
	indexFailed                    // it will not; see err
)

func newIndex(s *stream) *index {
	return &index{stream: s, cache: cache{limit: s.store.cacheBytes}}
}

// begin starts the feed, if it does not run. A bucket that does not exist is
// errNoBucket.
func (x *index) begin(ctx context.Context) error {
	x.mu.RLock()
	idle, err := x.state == indexIdle, x.err
	x.mu.RUnlock()
	if !idle {
		return err
	}
	if _, err := x.stream.find(ctx); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != indexIdle {
		return x.err
	}
	f := newFeed(x.stream)
	f.policy, f.headersOnly = deliverNewest, true
	if !x.stream.store.start(func(ctx context.Context) { x.run(ctx, f) }) {
		return errClosed
	}
	x.feed, x.state = f, indexLoading
	return nil
}

// run follows the bucket until the store is closed or the bucket is gone.
func (x *index) run(ctx context.Context, f *feed) {
	err := f.run(ctx, x)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.clear()
	x.feed = nil
	x.state = indexIdle
	if errors.Is(err, errNoBucket) {
		x.stream.known.Store(nil)
	} else {
		x.state, x.err = indexFailed, err
		if ctx.Err() != nil {
			x.err = errClosed
		}
	}
	x.broadcast()
}

// clear empties the index. The caller holds mu.
func (x *index) clear() {
	x.keys, x.foreign, x.applied, x.timed, x.bucket = sorted{}, nil, 0, 0, time.Time{}
	x.cache = cache{limit: x.cache.limit}
	x.fresh = time.Time{}
}

// lost empties the index, if it runs, because the bucket that it is about is gone: it
// is not to be read again until the feed has found out what is there now.
func (x *index) lost() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state == indexLoading || x.state == indexReady {
		x.beginAnew()
	}
}

// beginAnew empties the index, and has the feed tell of all that is there. The caller holds mu.
func (x *index) beginAnew() {
	x.clear()
	x.state = indexLoading
	x.broadcast()
	if f := x.feed; f != nil {
		f.anew.Store(true)
		f.wake()
	}
}

// takes reports whether the index takes in an answer to what was asked for when f was known
// of the bucket. If it is about another bucket, nobody knows which of the two has answered:
// it begins anew, so that it is not behind the answer. The caller holds mu.
func (x *index) takes(f *facts) bool {
	switch {
	case x.state != indexLoading && x.state != indexReady, x.bucket.IsZero(): // the feed will tell
		return false
	case x.bucket.Equal(f.created):
		return true
	}
	x.beginAnew()
	x.stream.shared(attemptsPause) // f may be what is known still
	return false
}

// reload has the feed, if it runs, tell again of all that is there.
func (x *index) reload() {
	x.mu.RLock()
	f := x.feed
	x.mu.RUnlock()
	if f != nil {
		f.anew.Store(true)
		f.wake()
	}
}

// progress returns the sequence up to which the feed has told everything.
func (x *index) progress() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.applied
}

// broadcast wakes those who wait for a change. The caller holds mu.
func (x *index) broadcast() {
	if x.changed != nil {
		close(x.changed)
		x.changed = nil
	}
}

// await returns when ok is true. The index must have been begun.
func (x *index) await(ctx context.Context, what string, ok func() bool) error {
	timeout := time.NewTimer(max(x.stream.store.calls.timeout, 2*x.stream.store.maxStale))
	defer timeout.Stop()
	for {
		x.mu.Lock()
		if x.state == indexFailed || x.state == indexIdle {
			err := x.err
			x.mu.Unlock()
			if err == nil {
				err = errNoBucket
			}
			return err
		}
		if ok() {
			x.mu.Unlock()
			return nil
		}
		if x.changed == nil {
			x.changed = make(chan struct{})
		}
		changed := x.changed
		x.mu.Unlock()
		select {
		case <-changed:
			// A change of what is awaited for long, the loading of many keys, is progress.
			timeout.Reset(max(x.stream.store.calls.timeout, 2*x.stream.store.maxStale))
		case <-ctx.Done():
			return x.because(context.Cause(ctx))
		case <-timeout.C:
			return fmt.Errorf("%s: %w", what, x.because(errTimeout))
		}
	}
}

// because adds the trouble of the feed to err, which has ended a wait. A refusal of the server
// says more than that there was no answer in time: it takes the place of errTimeout.
func (x *index) because(err error) error {
	x.mu.RLock()
	f := x.feed
	x.mu.RUnlock()
	if f == nil {
		return err
	}
	trouble := f.trouble.Load()
	var refusal *apiError
	switch {
	case trouble == nil:
		return err
	case errors.Is(err, errTimeout) && errors.As(*trouble, &refusal):
		return *trouble
	}
	return fmt.Errorf("%w; the feed of the index: %w", err, *trouble)
}

// ready returns when the index may be read: it is loaded, and was up to date at
// most MaxStale ago.
func (x *index) ready(ctx context.Context) error {
	for range attempts {
		if x.usable() {
			return nil
		}
		if err := x.begin(ctx); err != nil {
			return err
		}
		err := x.await(ctx, "the index of the bucket is not up to date", x.usableLocked)
		if !errors.Is(err, errNoBucket) { // else the bucket went away, and may be back
			return err
		}
	}
	return errNoBucket
}

func (x *index) usable() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.usableLocked()
}

func (x *index) usableLocked() bool {
	return x.state == indexReady && time.Since(x.fresh) <= x.stream.store.maxStale
}

// note takes in a message that the store wrote or read, with what was known of the bucket
// before. It does nothing if the index is not running.
// The time of a message that it wrote is an estimate until the feed tells: exact is false.
func (x *index) note(f *facts, full string, m *message, op kv.Op, exact bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.takes(f) {
		return
	}
	i := x.set(full, m.seq, m.time.UnixNano(), op, ttlOf(m.header), exact)
	if i != nil && x.cache.limit > 0 && i.live && i.seq == m.seq && x.state == indexReady {
		x.cache.drop(i.value)
		i.value = x.cache.put(m)
	}
}

// tell takes in what the store has seen of a key, without its value. f is as in note.
func (x *index) tell(f *facts, full string, d delivery, op kv.Op, ttl time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.takes(f) {
		x.set(full, d.seq, d.time, op, ttl, true)
	}
}

// running reports whether note has an effect.
func (x *index) running() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.state == indexLoading || x.state == indexReady
}

// passed reports whether the index is about a later bucket than f: what a watch of f has yet
// to tell is of no interest.
func (x *index) passed(f *facts) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.bucket.After(f.created)
}

// set gives the item of a key a message, unless it has a newer one. It returns
// the item, or nil if there is no room. The caller holds mu.
func (x *index) set(full string, seq uint64, at int64, op kv.Op, ttl time.Duration, exact bool) *item {
	i := x.keys.get(full)
	if i == nil {
		if x.keys.n >= x.stream.store.indexKeys {
			x.sweep()
		}
		if x.keys.n >= x.stream.store.indexKeys {
			return nil
		}
		i = x.keys.insert(full)
	}
	if i.seq > seq || i.seq == seq && !exact {
		return i
	}
	if i.seq < seq {
		x.cache.drop(i.value)
		i.value = nil
	}
	if i.expires != 0 {
		x.timed--
	}
	i.seq, i.time, i.live = seq, at, op == kv.OpUpdate
	i.expires = x.expiry(at, ttl)
	if i.expires != 0 {
		x.timed++
	}
	return i
}

// expiry returns when a message of a time and with a time to live is removed.
func (x *index) expiry(at int64, ttl time.Duration) int64 {
	var age time.Duration
	if f := x.stream.known.Load(); f != nil {
		age = f.maxAge
	}
	switch {
	case ttl == forEver:
		return 0
	case ttl > 0 && (age == 0 || ttl < age):
		age = ttl
	}
	if age == 0 {
		return 0
	}
	return at + int64(age)
}

// dead reports whether the item of a key is known to have no value.
func (i *item) dead(now int64) bool {
	return !i.live || i.expires != 0 && i.expires <= now
}

// peek returns what is known of a key without asking: its cached message, or that
// it has no value (a message with sequence 0). ok is false if only the server can tell.
func (x *index) peek(full string) (m message, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if !x.usableLocked() {
		return message{}, false
	}
	i := x.keys.get(full)
	if i == nil || i.dead(x.stream.store.clock.now()) {
		return message{}, true
	}
	if i.value == nil || i.value.message == nil {
		return message{}, false
	}
	if !i.value.used.Load() {
		i.value.used.Store(true)
	}
	m = *i.value.message
	m.time = time.Unix(0, i.time)
	return m, true
}

// newest returns the sequence of the newest message known of a key, 0 if none is,
// and whether it was a value.
func (x *index) newest(full string) (uint64, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if i := x.keys.get(full); i != nil {
		return i.seq, !i.dead(x.stream.store.clock.now())
	}
	return 0, false
}

// gone takes a key out that the leader does not have, if nothing was told of it
// since it had the sequence given. f is as in note.
func (x *index) gone(f *facts, full string, seq uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.takes(f) {
		return
	}
	if i := x.keys.get(full); i != nil && i.seq == seq {
		x.drop(i)
	}
}

// drop removes an item. The caller holds mu.
func (x *index) drop(i *item) {
	x.cache.drop(i.value)
	if i.expires != 0 {
		x.timed--
	}
	x.keys.remove(i.key)
}

// errTooManyKeys is what lists of a bucket report whose index is full.
func (x *index) errTooManyKeys() error {
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: "index", Space: x.stream.bucket,
		Err:  fmt.Errorf("the bucket has more than %d keys, deleted ones included", x.stream.store.indexKeys),
		Hint: "raise Options.IndexKeys; each key takes some 150 bytes of memory"}
}

// restart is told by the feed when all that is there follows.
func (x *index) restart(f *facts) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.clear()
	x.state, x.bucket = indexLoading, f.created
	x.broadcast()
	return nil
}

// deliver is told by the feed of one message.
func (x *index) deliver(m *nats.Msg, d delivery) error {
	token := m.Subject[len(x.stream.subject):]
	full, ours := x.stream.store.layout.full(token)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.applied = max(x.applied, d.seq)
	x.sweepDue()
	if !ours {
		if x.foreign == nil {
			x.foreign = make(map[string]struct{})
		}
		x.foreign[token] = struct{}{}
	} else if x.set(full, d.seq, d.time, operation(m.Header), ttlOf(m.Header), true) == nil {
		return x.errTooManyKeys()
	}
	if d.pending == 0 {
		x.fresh = time.Now()
	}
	x.broadcast()
	return nil
}

// alive is told by the feed when it has delivered all there is, up to seq.
func (x *index) alive(seq uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fresh = time.Now()
	x.applied = max(x.applied, seq)
	x.auditDue()
	x.broadcast()
}

// synced is told by the feed when it has delivered all that was there.
func (x *index) synced() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.bucket.IsZero() { // it is to begin anew
		return nil
	}
	x.state = indexReady
	x.fresh = time.Now()
	x.audited = x.fresh
	x.broadcast()
	return nil
}
