package pebblelog

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/invariants"
)

// tx turns the writes of one run into one Pebble batch. There is one tx, which is reused; only
// the leader of the committer uses it.
//
// It has two modes. A plain tx only appends to its Pebble batch: the states of keys written
// earlier in the run are in the cache of key states. An indexed tx also reads its own writes
// back, as edits of history and of feed blocks need. It holds one batch or one internal job, so
// that it can be abandoned on an error.
//
// The sequence of calls is begin, any number of changes, seal, then the commit (commit.go) and
// finish, which publishes; or abandon at any point before finish. Both end in reset. Before
// finish a tx changes nothing outside of it except state of the leader: key states in the cache,
// which abandon clears, and keys in the filters written and receipts.since, where keys of an
// abandoned tx do no harm.
//
// A plain tx finds the state of keys that its run has written in the cache of key states, in
// staged, created and ids. Everything else was committed before: the tx reads the hot tier
// first, which has the newest value of a key or nothing, and then Pebble.
type tx struct {
	l       *Log
	pb      *pebble.Batch // nil between two txs
	indexed bool
	moment        // time by which the run is judged; Now is latest if the clock was set back by a little
	time    int64 // time of its records, unix ns: not before that of the newest record

	// These fields keep their values from one tx to the next. Invariant, between two txs: all
	// positions below next are given, and the newest of them is durable and published, unless a
	// write has failed.
	next      uint64 // position of the next record
	nextSpace uint32 // number of the next space; numbers are not reused
	last      int64  // time of the newest record, unix ns; it never decreases

	latest   int64 // latest reading of the clock that counts; see clock.go
	remarked bool  // the tx changes the marks of the clock

	staged  []*stagedSpace     // spaces touched, in order of first touch, each once
	spare   []*stagedSpace     // for reuse by later txs
	created []*space           // not in the registry yet; each is staged
	dropped string             // name of the space that the tx drops; "": none
	publish []func()           // functions that finish calls when the run is durable
	ids     map[string]*waiter // batch IDs of this run; their receipts are in pb
	broken  error              // a plain tx failed in the middle of a batch
	expiry  int64              // earliest expiry written, unix ns; 0: none
	limits  bool               // a space gets an age or a size limit
	undo    struct {           // values of next and nextSpace at begin, for abandon
		next      uint64
		nextSpace uint32
	}

	// Scratch. From keyState to the next use, key has the state key of the key being written.
	key, key2, body, feedBody []byte
}

// stagedSpace has the changes of a tx to one space that are not published yet.
//
// Invariant: s.staged is the only pointer to it from stage to reset. So a space is staged once,
// and all writes of a run count on the same totals.
type stagedSpace struct {
	s       *space
	policy  *mainstem.Policy // as it was when the space was staged; it is in force for the whole tx
	maxAge  int64            // of the policy, ns; 0: no limit
	totals  format.Totals    // after the changes of the tx; seal writes them, show publishes them
	dirty   bool             // something was written
	removed int64            // bytes of records that the tx removes without replacing them
	traces  uint64           // as in space, including removals of the tx

	block      []byte // feed block under construction; empty: none
	blockFirst uint64 // position of its first entry, which is its key
}

// feedBlockMax is the size, in bytes, at which a feed block is closed. It bounds the bytes that
// a reader decodes to reach an entry, since it decodes a block from its start.
const feedBlockMax = 64 << 10

// begin starts a tx at the time given, unix ns; 0 means the time of the clock. With marks set,
// the tx may write marks of the clock.
func (t *tx) begin(indexed bool, given int64, marks bool) {
	t.indexed = indexed
	if indexed {
		t.pb = t.l.db.NewIndexedBatch()
	} else {
		t.pb = t.l.db.NewBatch()
	}
	t.remarked = false
	t.l.receipts.renew()
	t.readClock(given, marks)
	t.undo.next, t.undo.nextSpace = t.next, t.nextSpace
}

// abandon discards everything since begin. The positions are given again: the journal has none
// of the tx, or the log takes no commits any more.
func (t *tx) abandon() {
	t.next, t.nextSpace = t.undo.next, t.undo.nextSpace
	t.l.keyStates.clear()
	t.reset()
}

// reset makes t ready for begin. It keeps allocated memory.
func (t *tx) reset() {
	if t.pb != nil {
		t.pb.Close()
		t.pb = nil
	}
	for _, ts := range t.staged {
		ts.s.staged = nil
		*ts = stagedSpace{block: ts.block[:0]}
	}
	t.spare = append(t.spare, t.staged...)
	t.staged = t.staged[:0]
	t.created, t.publish, t.dropped = t.created[:0], t.publish[:0], ""
	t.broken = nil
	t.expiry, t.limits = 0, false
	clear(t.ids)
}

// onPublish makes finish call f when the run is durable, before it is visible. f is not called
// if the tx is abandoned.
func (t *tx) onPublish(f func()) { t.publish = append(t.publish, f) }

// space returns the staged space called name, or nil if it does not exist.
func (t *tx) space(name string) *stagedSpace {
	s := t.l.spaces.Load().byName[name]
	if s == nil {
		for _, c := range t.created {
			if c.name == name {
				return c.staged
			}
		}
		return nil
	}
	if s.staged != nil {
		return s.staged
	}
	return t.stage(s)
}

// stage stages s, which must not be staged. Its totals start as the published ones, which are
// those after the run before: only the leader changes them.
func (t *tx) stage(s *space) *stagedSpace {
	var ts *stagedSpace
	if n := len(t.spare); n > 0 {
		ts, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		ts = new(stagedSpace)
	}
	ts.s, ts.policy, ts.totals = s, s.policy.Load(), s.totals()
	ts.maxAge, ts.traces = int64(ts.policy.MaxAge), s.traces
	s.staged = ts
	t.staged = append(t.staged, ts)
	return ts
}

// create creates a space in the tx. It is fresh: every key written to it is first added to
// Log.written, so a key of it that is not in the filter was never written.
func (t *tx) create(name string, p mainstem.Policy) *stagedSpace {
	s := newSpace(t.nextSpace, name, t.time, p)
	s.fresh = true
	t.nextSpace++
	t.created = append(t.created, s)
	ts := t.stage(s)
	ts.dirty = true
	t.describe(s, ts.policy)
	return ts
}

// describe writes the description of s with policy p.
func (t *tx) describe(s *space, p *mainstem.Policy) {
	t.key = format.AppendSpaceKey(t.key[:0], s.name)
	t.body = format.AppendSpace(t.body[:0], &format.Space{ID: s.id, Created: s.created, Policy: *p})
	t.set(t.key, t.body)
	t.limits = t.limits || limited(p)
}

// drop removes everything that a space has stored. Expiry entries of the space are removed when
// they are due: the number of the space is not reused, so they never refer to records of another
// space.
func (t *tx) drop(ts *stagedSpace) error {
	s := ts.s
	t.del(format.AppendSpaceKey(nil, s.name))
	t.del(format.AppendTotalsKey(nil, s.id))
	for _, tag := range []byte{format.TagSlot, format.TagOlder, format.TagVersion, format.TagFeed} {
		start := format.AppendHead(nil, tag, s.id)
		if err := t.pb.DeleteRange(start, format.AppendSuccessor(nil, start), nil); err != nil {
			return err
		}
	}
	ts.removed += ts.totals.Bytes
	t.dropped = s.name
	return nil
}

// set and del cannot fail: Pebble returns an error only for a batch larger than 4 GiB, which the
// limits exclude, and then Commit reports it.
func (t *tx) set(k, v []byte) { _ = t.pb.Set(k, v, nil) }
func (t *tx) del(k []byte)    { _ = t.pb.Delete(k, nil) }

// read returns a copy of the value of k as the tx sees it, or nil if there is none. Only an
// indexed tx sees its own writes.
func (t *tx) read(k []byte) ([]byte, error) {
	if v, ok := t.hot(k); ok {
		return v, nil
	}
	r := pebble.Reader(t.l.db)
	if t.indexed {
		r = t.pb
	}
	v, closer, err := r.Get(k)
	if err == pebble.ErrNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v = append([]byte{}, v...)
	return v, closer.Close()
}

// hot returns the value that the hot tier has of a slot, of a receipt, or of the newest record
// under a prefix. An indexed tx does not use the hot tier: it reads its own writes and Pebble,
// which has everything before them.
func (t *tx) hot(k []byte) (value []byte, ok bool) {
	if t.indexed {
		return nil, false
	}
	return t.l.hot.Get(k)
}

func (t *tx) iter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	if t.indexed {
		return t.pb.NewIter(o)
	}
	return t.l.db.NewIter(o)
}

// stateKey writes to t.key the key under which the state of a user's key is cached, and returns
// it: the slot of the key, or the prefix of its versions.
func (t *tx) stateKey(ts *stagedSpace, key []byte) []byte {
	if slots(ts.policy) {
		t.key = format.AppendSlotKey(t.key[:0], ts.s.id, key)
	} else {
		t.key = format.AppendPrefix(t.key[:0], format.TagVersion, ts.s.id, key)
	}
	return t.key
}

// keyState returns the state of key, and leaves its state key in t.key. It looks in this order:
// in the cache, which has the writes of this run; in the filter of keys of new spaces; in the
// hot tier; among the keys that a read has not found; in Pebble. Each step that gives an answer
// is sufficient, and cheaper than the next one.
func (t *tx) keyState(ts *stagedSpace, key []byte) (*keyState, error) {
	hk := t.stateKey(ts, key)
	if h := t.l.keyStates.get(hk); h != nil {
		return h, nil
	}
	var h keyState
	var err error
	switch {
	case ts.s.fresh && !t.l.written.Has(hk): // most new keys need no tier to be asked
		if invariants.Enabled {
			stored, err := t.loadState(ts, hk, key)
			invariants.Check(err != nil || stored == h, "%q, which was never written, has version %d", key, stored.version)
		}
	default:
		h, err = t.loadState(ts, hk, key)
	}
	if err != nil {
		return nil, err
	}
	return t.l.keyStates.put(hk, h), nil
}

// writtenBytes is the size of the largest part of Log.written, in bytes. All parts together hold
// about 8 million keys in 11 MiB.
const writtenBytes = 8 << 20

// loadState reads the state of key from the tiers.
func (t *tx) loadState(ts *stagedSpace, hk, key []byte) (keyState, error) {
	if slots(ts.policy) {
		return t.loadSlotState(ts, hk, key)
	}
	return t.loadStreamState(ts, hk, key)
}

func (t *tx) loadSlotState(ts *stagedSpace, hk, key []byte) (keyState, error) {
	if v, ok := t.hot(hk); ok {
		return t.keyStateOf(v, len(key))
	}
	if t.knownAbsent(hk) {
		return keyState{}, t.checkAbsent(ts, hk, key)
	}
	return t.coldSlotState(ts, hk, key)
}

// coldSlotState reads the state of key from Pebble.
func (t *tx) coldSlotState(ts *stagedSpace, hk, key []byte) (keyState, error) {
	it, err := t.iter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return keyState{}, err
	}
	defer it.Close()
	// Not Get: it reads the last level even if the filter there excludes the key.
	if !it.SeekPrefixGE(hk) || !bytes.Equal(it.Key(), hk) {
		return keyState{}, it.Error()
	}
	return t.stateAt(it, ts, key)
}

// stateAt returns the state of key, given the iterator at its newest record or version marker.
// If that is a marker, the newest record held is searched among the version keys or the older
// keys of the key.
func (t *tx) stateAt(it *pebble.Iterator, ts *stagedSpace, key []byte) (keyState, error) {
	v, err := it.ValueAndErr()
	if err != nil {
		return keyState{}, err
	}
	h, err := t.keyStateOf(v, len(key))
	if err != nil || !h.marker {
		return h, err
	}
	tag := byte(format.TagVersion)
	if slots(ts.policy) {
		tag = format.TagOlder
	}
	return t.newestBehindMarker(format.AppendPrefix(nil, tag, ts.s.id, key), len(key), h)
}

// newestBehindMarker returns h, the state of a marker, completed with the newest record held
// under prefix.
func (t *tx) newestBehindMarker(prefix []byte, keyLen int, h keyState) (keyState, error) {
	it, err := t.iter(&pebble.IterOptions{LowerBound: prefix, UpperBound: format.AppendPrefixEnd(nil, prefix)})
	if err != nil {
		return keyState{}, err
	}
	defer it.Close()
	for ok := it.Last(); ok; ok = it.Prev() {
		v, err := it.ValueAndErr()
		if err != nil {
			return keyState{}, err
		}
		older, err := t.keyStateOf(v, keyLen)
		if err != nil {
			return keyState{}, err
		}
		if !older.marker {
			older.version, older.written, older.marker = h.version, h.written, true
			return older, nil
		}
	}
	return h, it.Error()
}

// keyStateOf returns the state of a key of keyLen bytes whose newest body is v.
func (m *moment) keyStateOf(v []byte, keyLen int) (keyState, error) {
	b, err := format.DecodeBody(v)
	if err != nil {
		return keyState{}, err
	}
	if b.VersionMarker {
		return keyState{version: b.Version, written: b.Written(), marker: true}, nil
	}
	m.rebase(&b)
	return keyState{
		version: b.Version, position: b.Position, written: b.Position, clock: b.Clock, expires: b.Expires,
		size: b.Size() + int64(keyLen), tomb: b.Tombstone, held: true,
	}, nil
}

func (t *tx) loadStreamState(ts *stagedSpace, prefix, key []byte) (keyState, error) {
	if v, ok := t.hot(prefix); ok {
		return t.keyStateOf(v, len(key))
	}
	if t.knownAbsent(prefix) {
		return keyState{}, t.checkAbsent(ts, prefix, key)
	}
	return t.coldStreamState(ts, prefix, key)
}

// coldStreamState is coldSlotState for a space that keeps all history.
func (t *tx) coldStreamState(ts *stagedSpace, prefix, key []byte) (keyState, error) {
	t.key2 = format.AppendPrefixEnd(t.key2[:0], prefix)
	it, err := t.iter(&pebble.IterOptions{LowerBound: prefix, UpperBound: t.key2, UseL6Filters: true})
	if err != nil {
		return keyState{}, err
	}
	defer it.Close()
	if !t.indexed && !it.SeekPrefixGE(prefix) { // bloom filters exclude most new keys
		return keyState{}, it.Error()
	}
	if !it.Last() {
		return keyState{}, it.Error()
	}
	return t.stateAt(it, ts, key)
}

// seal writes the totals of the touched spaces and closes their feed blocks. These are the last
// writes of a run.
func (t *tx) seal() {
	for _, ts := range t.staged {
		if !ts.dirty || ts.s.name == t.dropped {
			continue
		}
		t.closeBlock(ts)
		t.key = format.AppendTotalsKey(t.key[:0], ts.s.id)
		t.body = format.AppendTotals(t.body[:0], &ts.totals)
		t.set(t.key, t.body)
	}
	if t.dropped != "" { // no record with the newest position is written with it
		t.body = format.AppendCounters(t.body[:0], format.Counters{Last: t.next - 1, NextSpace: t.nextSpace, Time: t.last, Clock: t.latest})
		t.set([]byte{format.TagLog}, t.body)
	}
}

// closeBlock adds the feed block under construction, if there is one, to pb.
func (t *tx) closeBlock(ts *stagedSpace) {
	if len(ts.block) == 0 {
		return
	}
	t.key = format.AppendFeedKey(t.key[:0], ts.s.id, ts.blockFirst)
	t.set(t.key, ts.block)
	ts.block = ts.block[:0]
}
