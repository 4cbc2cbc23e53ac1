package pebblelog

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/invariants"
)

// tx turns the writes of one group of batches into one Pebble batch. There is
// one tx, reused; only the leader of the committer touches it.
//
// Two modes. A plain tx only appends to its Pebble batch: what it must know of
// keys written earlier in the group stands in the cache of key states. An indexed tx
// also reads its own writes back, which edits of history and of feed blocks need;
// it holds one batch or one internal job, so that it can be thrown away on an error.
//
// Its life: begin, any number of changes, seal, then the commit (commit.go) and finish, which
// publishes; or abandon at any point before that. Both end in reset. Nothing outside of the tx
// changes before finish, but for what is only the leader's: key states in the cache, which
// abandon clears, and keys in the filters written and receipts.since, which are harmless there.
//
// What a plain tx reads of keys that this run has written is in the cache of key states, in
// staged, created and ids; all else is what was committed before. Of keys that are read through
// the hot tier the newest value is there, or in Pebble: hot first, then Pebble.
type tx struct {
	l       *Log
	pb      *pebble.Batch // nil between two txs
	indexed bool
	moment        // by which the run is judged; Now is latest if the clock was set back by a little
	time    int64 // that its records get, unix ns: at least that of the newest record

	// These go on from one tx to the next. Invariant, between two txs: all positions below next
	// are given, and the newest of them is durable and published, unless a write has failed.
	next      uint64 // position of the next record
	nextSpace uint32 // number of the next space: numbers are never given twice
	last      int64  // time of the newest record: time never runs backwards

	latest   int64 // latest reading of the clock that counts; see clock.go
	remarked bool  // the tx changes the marks of the clock

	staged  []*stagedSpace     // spaces touched, in order of first touch, each once
	spare   []*stagedSpace     // for other txs
	created []*space           // not in the registry yet; each is staged
	dropped string             // name of the space that the tx drops; "": none
	publish []func()           // finish runs them, when the group is durable
	ids     map[string]*waiter // batch IDs of this run; their receipts are in pb
	broken  error              // a plain tx failed in the middle of a batch
	expiry  int64              // earliest expiry written, unix ns; 0: none
	limits  bool               // a space gets an age or a size limit
	undo    struct {           // what next and nextSpace were at begin, for abandon
		next      uint64
		nextSpace uint32
	}

	// Scratch. key has the state key of the key under way from keyState to the next use.
	key, key2, body, feedBody []byte
}

// stagedSpace is what a tx has done to a space and not yet published.
//
// Invariant: s.staged points to it from stage to reset, and to nothing else; so a space is staged
// once, and everything in a run counts on the same totals.
type stagedSpace struct {
	s       *space
	policy  *mainstem.Policy // as when it was staged: it counts for the whole tx
	maxAge  int64            // of the policy, ns; 0: records do not get old
	totals  format.Totals    // after what the tx has done; seal writes them, show publishes them
	dirty   bool             // something was written
	removed int64            // bytes of records that the tx removes without writing others instead
	traces  uint64           // as in space, with what the tx removes

	block      []byte // feed block under construction; empty: none
	blockFirst uint64 // position of its first entry, which is its key
}

// feedBlockMax is the size, in bytes, at which a feed block is closed: a
// reader decodes from the start of a block.
const feedBlockMax = 64 << 10

// begin starts a tx at the time given, unix ns; 0 means the clock's. With marks, what
// the clock shows may be noted in the log.
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

// abandon throws away everything since begin. Positions are given again to others: none of the
// tx is in the journal, or the log takes no commits any more.
func (t *tx) abandon() {
	t.next, t.nextSpace = t.undo.next, t.undo.nextSpace
	t.l.keyStates.clear()
	t.reset()
}

// reset makes t ready for begin. It keeps memory.
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

// onPublish has finish call f when the group is durable, before it is visible. f does not run if
// the tx is abandoned.
func (t *tx) onPublish(f func()) { t.publish = append(t.publish, f) }

// space returns the staged space called name, or nil if there is none.
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

// stage begins to stage s, which is not staged. Its totals are the published ones, which are
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

// create creates a space in the tx. It is fresh: every key that is ever written to it goes into
// Log.written first, so a key of it that the filter denies was never written.
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

// drop removes everything a space has stored. Expiry entries that point to it
// are dropped when they come up: the number of the space is not given again, so they never
// point to records of another one.
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

// set and del cannot fail: Pebble returns an error only for keys in a batch that
// exceeds 4 GiB, which the limits exclude, and then Commit reports it.
func (t *tx) set(k, v []byte) { _ = t.pb.Set(k, v, nil) }
func (t *tx) del(k []byte)    { _ = t.pb.Delete(k, nil) }

// read returns the value of k as the tx sees it, nil if there is none.
// Only an indexed tx sees its own writes.
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

// hot returns what the hot tier has of a slot, of a receipt, or of the newest record under a
// prefix. An indexed tx reads its own writes, and all before them from Pebble.
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

// stateKey writes to t.key the key under which the head of a user's key is
// cached: its slot, or the prefix of its versions.
func (t *tx) stateKey(ts *stagedSpace, key []byte) []byte {
	if slots(ts.policy) {
		t.key = format.AppendSlotKey(t.key[:0], ts.s.id, key)
	} else {
		t.key = format.AppendPrefix(t.key[:0], format.TagVersion, ts.s.id, key)
	}
	return t.key
}

// keyState returns the head of key; t.key holds its head key afterwards. It is looked for, in
// this order: in the cache, which has what this run has written; in the filter of keys of spaces
// that are new; in the hot tier; among the keys that a read has not found; in Pebble. Each
// step is right by itself, and cheaper than the next.
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

// writtenBytes is the size of the largest part of Log.written: there are about 8 million keys
// in all parts, in 11 MiB.
const writtenBytes = 8 << 20

// loadState reads the head of key from the tiers.
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

// coldSlotState reads the head of key from Pebble.
func (t *tx) coldSlotState(ts *stagedSpace, hk, key []byte) (keyState, error) {
	it, err := t.iter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return keyState{}, err
	}
	defer it.Close()
	// Not Get, which looks into the last level for a key that its filter would deny.
	if !it.SeekPrefixGE(hk) || !bytes.Equal(it.Key(), hk) {
		return keyState{}, it.Error()
	}
	return t.stateAt(it, ts, key)
}

// stateAt returns the state of key, whose newest record or version marker stands at it. Behind
// a marker, what is held is looked for among the version keys or the older keys of the key.
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

// newestBehindMarker returns h with what is known of the newest record held under prefix.
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

// keyStateOf returns the state that v, a body of a key of keyLen bytes, gives as the newest one.
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
	if !t.indexed && !it.SeekPrefixGE(prefix) { // bloom filters answer for most new keys
		return keyState{}, it.Error()
	}
	if !it.Last() {
		return keyState{}, it.Error()
	}
	return t.stateAt(it, ts, key)
}

// seal writes the totals of the touched spaces and closes their feed blocks: the
// last writes of a group.
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
	if t.dropped != "" { // no record is written with it
		t.body = format.AppendCounters(t.body[:0], format.Counters{Last: t.next - 1, NextSpace: t.nextSpace, Time: t.last, Clock: t.latest})
		t.set([]byte{format.TagLog}, t.body)
	}
}

// closeBlock puts the block under construction, if there is one, into pb.
func (t *tx) closeBlock(ts *stagedSpace) {
	if len(ts.block) == 0 {
		return
	}
	t.key = format.AppendFeedKey(t.key[:0], ts.s.id, ts.blockFirst)
	t.set(t.key, ts.block)
	ts.block = ts.block[:0]
}
