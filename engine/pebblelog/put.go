package pebblelog

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/wallclock"
)

// How a batch becomes keys and values of a tx.
//
// What this file relies on:
//
//   - Only the leader runs it, and batches are applied one after the other. The state of a key
//     (keystate.go) is that after all batches before, those of the same run included, so
//     conditions and versions are exact without a lock.
//   - In a plain tx nothing can fail once the conditions and spaces of a batch are checked, but
//     for reading from the tiers. plain admits only operations for which that is so.
//     Then a batch that is refused leaves no change, and the others of the run go on.
//   - The order of changes inside the tx does not matter to a crash: they are one frame. It
//     matters to later changes of the same key only, of which the last one counts.
//   - Every change is absolute: a value, not a difference. So frames can be replayed twice.
//
// What a put changes, by kind of space (docs/format.md draws the keys):
//
//	all history (History 0)    version key with the record; feed entry
//	one record (History 1)     slot, overwritten; the feed entry of the record before is deleted
//	a few records (History n)  slot; the record before moves to an older key; what is beyond
//	                           n goes with its feed entry
//
// and for each the totals of the space (seal), and an entry of the expiry index if it ends.

// apply puts one batch into the tx and fills in the waiter's receipt. If it
// fails, a plain tx is as before the call; an indexed one must be abandoned.
func (t *tx) apply(w *waiter) error {
	b := w.batch
	if b.ID != "" {
		if done, err := t.duplicate(w); done || err != nil {
			return err
		}
	}
	// All conditions are tested before the first write: a batch does not see its own writes.
	if err := t.checkConditions(b); err != nil {
		return err
	}
	writes := b.Writes()
	if err := t.checkSpaces(b); err != nil {
		return err
	}
	for i := range b.Ensures() {
		if e := &b.Ensures()[i]; t.space(e.Space) == nil {
			t.create(e.Space, e.Policy)
		}
	}
	first := t.next
	versions := make([]mainstem.Version, len(writes))
	for i := range writes {
		v, err := t.write(&writes[i])
		if err != nil {
			t.broken = err // some of its writes are in the tx: the run cannot go on
			return err
		}
		versions[i] = v
	}
	w.receipt.Versions = versions
	if t.next > first {
		w.receipt.First, w.receipt.Last = mainstem.Position(first), mainstem.Position(t.next-1)
	}
	if b.ID != "" {
		t.remember(w)
	}
	return nil
}

// checkSpaces makes sure that every space written to exists or is created by the batch.
func (t *tx) checkSpaces(b *mainstem.Batch) error {
	last := ""
	for i := range b.Writes() {
		name := b.Writes()[i].Space
		if name == last || t.space(name) != nil {
			last = name
			continue
		}
		if !ensured(b, name) {
			return &mainstem.Error{
				Kind: mainstem.KindNotFound, Op: "commit", Space: name, Outcome: mainstem.NotWritten,
				Hint: "create the space first, or with the batch (Batch.Ensure)",
			}
		}
	}
	return nil
}

func ensured(b *mainstem.Batch, name string) bool {
	for i := range b.Ensures() {
		if b.Ensures()[i].Space == name {
			return true
		}
	}
	return false
}

// checkConditions returns a Conflict for the first condition of b that does not hold. A key of
// a space that does not exist has version 0, no value, and was never written. The error
// copies what it shows of the batch, which belongs to the caller.
func (t *tx) checkConditions(b *mainstem.Batch) error {
	for i := range b.Conditions() {
		c := &b.Conditions()[i]
		var h keyState
		var live bool
		var written uint64
		if ts := t.space(c.Space); ts != nil {
			p, err := t.keyState(ts, c.Key)
			if err != nil {
				return err
			}
			h, live, written = *p, p.live(&t.moment, ts.maxAge), ts.written(p)
		}
		ok := false
		switch c.Test {
		case mainstem.TestVersion:
			ok = h.version == uint64(c.Version)
		case mainstem.TestAbsent:
			ok = !live
		case mainstem.TestExists:
			ok = live
		case mainstem.TestNotAfter:
			ok = written <= uint64(c.Position)
		}
		if !ok {
			want := *c
			want.Key = append([]byte(nil), c.Key...)
			e := &mainstem.Error{
				Kind: mainstem.KindConflict, Op: "commit", Space: c.Space, Key: want.Key,
				Outcome: mainstem.NotWritten, Want: want, Got: mainstem.Version(h.version), GotLive: live,
			}
			if c.Test == mainstem.TestNotAfter {
				e.GotPosition = mainstem.Position(written)
			}
			return e
		}
	}
	return nil
}

// write applies one write and returns the version of the record it wrote, 0 for none.
func (t *tx) write(w *mainstem.Write) (mainstem.Version, error) {
	ts := t.space(w.Space)
	switch w.Op {
	case mainstem.OpPut:
		return t.put(ts, w, mainstem.Live)
	case mainstem.OpDelete:
		return t.tombstone(ts, w, mainstem.Deleted)
	case mainstem.OpPurge:
		return t.purge(ts, w)
	case mainstem.OpForget:
		return 0, t.forget(ts, w.Key)
	case mainstem.OpTruncate:
		return 0, t.truncate(ts, w.Key, uint64(w.Version))
	case mainstem.OpRewrite:
		return 0, t.rewrite(ts, w)
	case mainstem.OpRemove:
		return 0, t.removeOne(ts, w.Key, uint64(w.Version))
	}
	return 0, fmt.Errorf("unknown operation %d", w.Op) // Batch.Validate excludes it
}

// plain reports whether w can be applied by a plain tx: without reading
// records back, and without failing once the conditions hold.
func plain(op mainstem.Op, p *mainstem.Policy) bool {
	switch op {
	case mainstem.OpPut, mainstem.OpDelete:
		return p.History <= 1
	case mainstem.OpPurge, mainstem.OpForget:
		return p.History == 1
	}
	return false
}

// tombstone writes a tombstone if the key has a live value; deleting what is not there is no
// write and takes no position.
func (t *tx) tombstone(ts *stagedSpace, w *mainstem.Write, kind mainstem.Tombstone) (mainstem.Version, error) {
	h, err := t.keyState(ts, w.Key)
	if err != nil {
		return 0, err
	}
	if !h.live(&t.moment, ts.maxAge) {
		return 0, nil
	}
	return t.put(ts, w, kind)
}

// put writes a record or tombstone as the newest of its key.
//
// Its version continues that of the key, whatever became of the records. Of a key without any
// trace the version is not known any more; then it continues the floor of the space, which is
// at least the version of every key that left no trace (vanish). So no version of a key is
// given twice.
//
// The state h points into the cache of key states, where it stays until the group is over;
// put changes it in place, after everything that needs the state before: supersede and count.
// hk is t.key itself: nothing between here and t.set(hk, …) may use t.key as scratch, so
// supersede and below use key2.
func (t *tx) put(ts *stagedSpace, w *mainstem.Write, kind mainstem.Tombstone) (mainstem.Version, error) {
	h, err := t.keyState(ts, w.Key)
	if err != nil {
		return 0, err
	}
	hk := t.key
	body := format.Body{Position: t.next, Time: t.time, Clock: t.Now, Count: 1, Tombstone: kind, Expires: t.expires(ts, w, kind)}
	if kind == mainstem.Live {
		body.Count, body.Value = max(w.Count, 1), w.Value
	}
	newest := h.version
	if newest == 0 {
		newest = ts.totals.Floor
	}
	body.Version = newest + uint64(body.Count)
	// Before the record is in any tier: a reader that the filter sends away has not missed it.
	if h.version == 0 && ts.s.fresh {
		t.l.written.Add(hk)
	}
	t.body = format.AppendBody(t.body[:0], &body, w.Headers)

	if slots(ts.policy) {
		bytes := ts.totals.Bytes
		if err := t.supersede(ts, hk, h, w.Key); err != nil {
			return 0, err
		}
		if kind != mainstem.Live { // overwritten values make Pebble merge by itself: see reclaim.go
			ts.removed += bytes - ts.totals.Bytes
		}
		t.set(hk, t.body)
	} else {
		if h.marker { // the new record has a higher version, so the marker has done its work
			t.del(format.AppendVersion(hk, h.version))
		}
		t.set(format.AppendVersion(hk, body.Version), t.body)
	}
	t.next++
	size := int64(w.Size())
	if kind != mainstem.Live {
		size -= int64(len(w.Value))
	}
	t.count(ts, h, size)
	*h = keyState{version: body.Version, position: body.Position, written: body.Position, clock: t.Now, expires: body.Expires, size: size, tomb: kind, held: true}
	if body.Expires != 0 {
		t.indexExpiry(ts, w.Key, &body)
	}
	if !ts.policy.NoFeed {
		t.feed(ts, w, &body)
	}
	return mainstem.Version(body.Version), nil
}

// expires returns when the record ends: by its time to live, or as a tombstone
// in a space with bounded history.
func (t *tx) expires(ts *stagedSpace, w *mainstem.Write, kind mainstem.Tombstone) int64 {
	ttl := int64(w.TTL)
	if kind != mainstem.Live {
		ttl = tombstoneAge(ts.policy)
	}
	if ttl <= 0 {
		return 0
	}
	return wallclock.ExpiresAt(t.Now, ttl)
}

// tombstoneAge returns for how many ns tombstones stay; 0 means always.
func tombstoneAge(p *mainstem.Policy) int64 {
	switch {
	case !slots(p) || p.TombstoneAge < 0:
		return 0
	case p.TombstoneAge == 0:
		return int64(mainstem.DefaultTombstoneAge)
	}
	return int64(p.TombstoneAge)
}

// count adds a record of size bytes to the totals of its space. h is the state before it: a key
// that holds nothing now becomes one that counts. t.next is behind the record already.
func (t *tx) count(ts *stagedSpace, h *keyState, size int64) {
	ts.dirty = true
	ts.totals.Last, ts.totals.Updated, ts.totals.Clock = t.next-1, t.time, t.Now
	ts.totals.Records++
	ts.totals.Bytes += size
	if !h.held {
		ts.totals.Keys++
	}
}

// supersede makes room in the slot hk: the record there is dropped or, with
// longer history, moves to an older key, and the oldest beyond the history go.
//
// With one record for each key, in a plain tx, nothing is read: the slot is overwritten, and the
// state has the size and the position that totals and feed need. In any other case records
// are read back. An indexed tx finds those of its own there. A plain one gets here only
// over a version marker, with an older record behind it; only indexed txs write older records,
// and Pebble has these at once, so it is not missed.
func (t *tx) supersede(ts *stagedSpace, hk []byte, h *keyState, key []byte) error {
	if !h.held {
		return nil
	}
	if ts.policy.History == 1 && !t.indexed && !h.marker {
		t.dropSlotRecord(ts, h)
		return nil
	}
	prefix := format.AppendPrefix(nil, format.TagOlder, ts.s.id, key)
	if !h.marker { // a version marker in the slot is overwritten; the record held is an older one
		old, err := t.read(hk)
		if err != nil {
			return err
		}
		t.set(format.AppendVersion(prefix, h.version), old)
	}
	return t.trimOlder(ts, prefix, len(key), ts.policy.History-1)
}

// dropSlotRecord counts out the record of h, which is overwritten or deleted, and deletes its
// feed entry, which is a block of its own in a space with bounded history.
func (t *tx) dropSlotRecord(ts *stagedSpace, h *keyState) {
	ts.totals.Records--
	ts.totals.Bytes -= h.size
	if !ts.policy.NoFeed {
		t.key2 = format.AppendFeedKey(t.key2[:0], ts.s.id, h.position)
		t.del(t.key2)
	}
}

// trimOlder keeps the newest keep records among the older ones of a key.
func (t *tx) trimOlder(ts *stagedSpace, prefix []byte, keyLen, keep int) error {
	it, err := t.iter(&pebble.IterOptions{LowerBound: prefix, UpperBound: format.AppendPrefixEnd(nil, prefix)})
	if err != nil {
		return err
	}
	defer it.Close()
	n := 0
	for ok := it.Last(); ok; ok = it.Prev() {
		if n++; n <= keep {
			continue
		}
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		h, err := t.keyStateOf(v, keyLen)
		if err != nil {
			return err
		}
		t.del(it.Key())
		t.dropSlotRecord(ts, &h)
	}
	return it.Error()
}

// trimSpace keeps the newest history records of every key of a space. Where the slot of
// a key holds a version marker, all of them are older ones.
func (t *tx) trimSpace(ts *stagedSpace, history int) error {
	ts.dirty = true
	bytes := ts.totals.Bytes
	defer func() { ts.removed += bytes - ts.totals.Bytes }()
	keyState := format.AppendHead(nil, format.TagOlder, ts.s.id)
	it, err := t.iter(&pebble.IterOptions{LowerBound: keyState, UpperBound: format.AppendSuccessor(nil, keyState)})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; {
		prefix, _, err := format.SplitVersioned(it.Key())
		if err != nil {
			return err
		}
		prefix = append([]byte(nil), prefix...)
		key, err := format.AppendUnescaped(nil, prefix)
		if err != nil {
			return err
		}
		slot, err := t.readBody(format.AppendSlotKey(nil, ts.s.id, key))
		if err != nil {
			return err
		}
		keep := history - 1
		if slot != nil && slot.VersionMarker {
			keep = history
		}
		if err := t.trimOlder(ts, prefix, len(key), keep); err != nil {
			return err
		}
		ok = it.SeekGE(format.AppendPrefixEnd(nil, prefix))
	}
	return it.Error()
}

// indexExpiry adds the entry by which the sweeper finds b when it ends. The entry is not
// removed with its record: it names the version, and one that finds no such record is dropped
// when it is due.
func (t *tx) indexExpiry(ts *stagedSpace, key []byte, b *format.Body) {
	t.key2 = format.AppendExpiryKey(t.key2[:0], b.Expires, ts.s.id, key, b.Version)
	t.set(t.key2, nil)
	if t.expiry == 0 || b.Expires < t.expiry {
		t.expiry = b.Expires
	}
}

// feed appends the record whose body stands in t.body to the feed of its space.
//
// A block is a row of entries in the order of positions, under the position of the first one.
// Blocks of a space do not overlap: a block is closed before the next one is begun, and a run
// closes its last block in seal. A large value is stored once, with its record; its entry
// says External, and a reader fetches it there (feed.go).
func (t *tx) feed(ts *stagedSpace, w *mainstem.Write, b *format.Body) {
	body := t.body
	if len(b.Value) > format.InlineMax {
		b.External = true
		t.feedBody = format.AppendBody(t.feedBody[:0], b, w.Headers)
		body = t.feedBody
	}
	if len(ts.block) == 0 {
		ts.blockFirst = b.Position
	}
	ts.block = format.AppendFeedEntry(ts.block, w.Key, body)
	// Bounded history deletes feed entries one by one, and an indexed tx must find
	// what it wrote: both want blocks of one entry.
	if t.indexed || slots(ts.policy) || len(ts.block) >= feedBlockMax {
		t.closeBlock(ts)
	}
}
