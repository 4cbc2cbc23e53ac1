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
// Assumptions of this file:
//
//   - Only the leader runs it, and batches are applied one after the other. The state of a key
//     (keystate.go) includes all batches before, also those of the same run. So conditions and
//     versions are exact without a lock.
//   - In a plain tx, once the conditions and spaces of a batch are checked, only reads from the
//     tiers can fail. plain admits only operations for which that holds. So a batch that is
//     refused leaves no change, and the others of the run go on.
//   - The order of changes inside a tx does not matter for a crash: they are one frame. If a tx
//     changes a key several times, the last change wins.
//   - Every change is absolute: a value, not a difference. So frames can be replayed twice.
//
// The changes of a put, by kind of space (docs/format.md draws the keys):
//
//	all history (History 0)    version key with the record; feed entry
//	one record (History 1)     slot, overwritten; the feed entry of the record before is deleted
//	a few records (History n)  slot; the record before moves to an older key; records beyond
//	                           n are deleted with their feed entries
//
// In each kind the put also changes the totals of the space (seal), and adds an entry to the
// expiry index if the record expires.

// apply adds one batch to the tx and fills in the receipt of the waiter. If it fails, a plain tx
// is unchanged, unless broken is set; an indexed one must be abandoned.
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
			t.broken = err // some of its writes are in the tx, so the run cannot continue
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

// checkSpaces returns an error unless every space written to exists or is created by the batch.
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

// checkConditions returns a Conflict for the first condition of b that does not hold. A key of a
// space that does not exist has version 0, no value, and was never written. The error has copies
// of bytes of the batch, which belong to the caller.
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

// write applies one write and returns the version of the record it wrote, or 0 if it wrote none.
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

// plain reports whether a plain tx can apply w: without reading records back, and without
// failing once the conditions hold.
func plain(op mainstem.Op, p *mainstem.Policy) bool {
	switch op {
	case mainstem.OpPut, mainstem.OpDelete:
		return p.History <= 1
	case mainstem.OpPurge, mainstem.OpForget:
		return p.History == 1
	}
	return false
}

// tombstone writes a tombstone if the key has a live value. Otherwise it writes nothing and
// takes no position.
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
// Its versions follow the newest version of the key, even if the records were removed. If the
// key has left no trace, its version is unknown. Then the new versions are above the floor of
// the space, which is at least the version of every key that left no trace (vanish). So no
// version of a key is given twice.
//
// The state h points into the cache of key states, where it stays until the end of the group.
// put changes it in place, after supersede and count, which need the state before. hk is t.key
// itself: until t.set(hk, …) nothing may use t.key as scratch, so supersede and its callees use
// key2.
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
	// Before the record is in any tier, so that no reader finds the filter without the key then.
	if h.version == 0 && ts.s.fresh {
		t.l.written.Add(hk)
	}
	t.body = format.AppendBody(t.body[:0], &body, w.Headers)

	if slots(ts.policy) {
		bytes := ts.totals.Bytes
		if err := t.supersede(ts, hk, h, w.Key); err != nil {
			return 0, err
		}
		if kind != mainstem.Live { // overwritten values make Pebble compact without the reclaimer: see reclaim.go
			ts.removed += bytes - ts.totals.Bytes
		}
		t.set(hk, t.body)
	} else {
		if h.marker { // the new record has a higher version, so the marker is not needed any more
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

// expires returns when the record expires, in unix ns, 0 for never: by its time to live or, in a
// space with bounded history, as a tombstone.
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

// tombstoneAge returns how long tombstones stay, in ns; 0 means without end.
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
// that held nothing is counted as a new key. t.next is already behind the record.
func (t *tx) count(ts *stagedSpace, h *keyState, size int64) {
	ts.dirty = true
	ts.totals.Last, ts.totals.Updated, ts.totals.Clock = t.next-1, t.time, t.Now
	ts.totals.Records++
	ts.totals.Bytes += size
	if !h.held {
		ts.totals.Keys++
	}
}

// supersede makes room in the slot hk: the record there is dropped or, with longer history,
// moves to an older key, and the oldest records beyond the history are deleted.
//
// With one record for each key, in a plain tx, nothing is read: the slot is overwritten, and h
// has the size and the position that totals and feed need. Otherwise records are read back. An
// indexed tx finds its own writes. A plain tx reads only if the slot holds a version marker with
// an older record behind it. Only indexed txs write older records, and these are in Pebble at
// once, so the read finds it.
func (t *tx) supersede(ts *stagedSpace, hk []byte, h *keyState, key []byte) error {
	if !h.held {
		return nil
	}
	if ts.policy.History == 1 && !t.indexed && !h.marker {
		t.dropSlotRecord(ts, h)
		return nil
	}
	prefix := format.AppendPrefix(nil, format.TagOlder, ts.s.id, key)
	if !h.marker { // the new record overwrites the version marker in the slot; the record held is an older one
		old, err := t.read(hk)
		if err != nil {
			return err
		}
		t.set(format.AppendVersion(prefix, h.version), old)
	}
	return t.trimOlder(ts, prefix, len(key), ts.policy.History-1)
}

// dropSlotRecord subtracts the record of h, which is overwritten or deleted, from the totals. It
// deletes its feed entry, which is a block of its own in a space with bounded history.
func (t *tx) dropSlotRecord(ts *stagedSpace, h *keyState) {
	ts.totals.Records--
	ts.totals.Bytes -= h.size
	if !ts.policy.NoFeed {
		t.key2 = format.AppendFeedKey(t.key2[:0], ts.s.id, h.position)
		t.del(t.key2)
	}
}

// trimOlder keeps the newest keep records among the older keys of a key and deletes the others.
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

// trimSpace keeps the newest history records of every key of a space. If the slot of a key holds
// a version marker, all of these are under older keys.
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

// indexExpiry adds the index entry by which the sweeper finds b when it expires. The entry is
// not removed together with its record: it names the version, and the sweeper drops it when it
// is due and finds no record of that version.
func (t *tx) indexExpiry(ts *stagedSpace, key []byte, b *format.Body) {
	t.key2 = format.AppendExpiryKey(t.key2[:0], b.Expires, ts.s.id, key, b.Version)
	t.set(t.key2, nil)
	if t.expiry == 0 || b.Expires < t.expiry {
		t.expiry = b.Expires
	}
}

// feed adds the record in t.body to the feed of its space.
//
// A block is a sequence of entries in the order of positions, under the position of the first
// one. Blocks of a space do not overlap: a block is closed before the next one is begun, and a
// run closes its last block in seal. A large value is stored once, with its record. Its entry is
// marked External, and a reader fetches the value from the record (feed.go).
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
	// Spaces with bounded history delete feed entries one by one, and an indexed tx must find
	// entries that it has written. Both need blocks of one entry.
	if t.indexed || slots(ts.policy) || len(ts.block) >= feedBlockMax {
		t.closeBlock(ts)
	}
}
