package pebblelog

import (
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// The edits of history: purge, forget, truncate, rewrite, remove. They run in an indexed tx.
// Purge and forget do not need one in a space that keeps one record of each key.
//
// An indexed tx is needed because an edit reads records and feed blocks back and replaces them.
// Two edits of one batch may concern the same block, so the second must see the writes of the
// first one. Pebble has all groups before the tx (commitRun), so the tx and Pebble below it are
// the whole log.
//
// An edit changes everything that depends on the record, in one frame:
//
//	the record itself        deleted, or replaced in place
//	its feed entry           deleted, or replaced in its block
//	the totals of the space  reduced
//	the version of the key   kept by a version marker, if the newest record is removed
//	the cached state         dropped and read again
//
// Only its entry in the expiry index stays, until it is due: see indexExpiry.
//
// Readers see all of an edit or nothing. A group with an edit bypasses the hot tier and goes to
// Pebble as one batch; before that, the hot tier drops the keys that the batch touches. A reader
// that looked into both tiers meanwhile looks again (hot.go).
//
// Versions are never given twice (docs/decisions/0003), although records are removed. The newest
// record has the version of its key, so when it is removed, a version marker replaces it. In a
// slot a marker without any records behind it expires like a tombstone; after that the floor of
// the space replaces it.

// held is a record found by eachRecord. Its slices belong to the iterator or reader and are
// valid until the callback returns.
type held struct {
	dbKey []byte
	body  format.Body
}

// eachRecord calls f for the records of key whose version is at most limit, oldest first,
// without version markers. f may delete or replace the record that it is given. With slots the
// older keys come first and the slot last, since it has the newest version.
func (t *tx) eachRecord(ts *stagedSpace, key []byte, limit uint64, f func(held) error) error {
	tag := byte(format.TagVersion)
	if slots(ts.policy) {
		tag = format.TagOlder
	}
	prefix := format.AppendPrefix(nil, tag, ts.s.id, key)
	if err := t.eachVersioned(prefix, limit, f); err != nil || !slots(ts.policy) {
		return err
	}
	slot := format.AppendSlotKey(nil, ts.s.id, key)
	v, err := t.read(slot)
	if err != nil || v == nil {
		return err
	}
	b, err := format.DecodeBody(v)
	if err != nil || b.VersionMarker || b.Version > limit {
		return err
	}
	t.rebase(&b)
	return f(held{slot, b})
}

// eachVersioned is eachRecord for the version keys under prefix. The iterator shows the tx as it
// was when the iterator was made, so it does not return what f writes.
func (t *tx) eachVersioned(prefix []byte, limit uint64, f func(held) error) error {
	it, err := t.iter(&pebble.IterOptions{LowerBound: prefix, UpperBound: format.AppendPrefixEnd(nil, prefix)})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		b, err := format.DecodeBody(v)
		if err != nil {
			return err
		}
		if b.Version > limit {
			break
		}
		if b.VersionMarker {
			continue
		}
		t.rebase(&b)
		if err := f(held{it.Key(), b}); err != nil {
			return err
		}
	}
	return it.Error()
}

// removeUpTo removes the records of key whose version is at most limit. If it removes the newest
// record, it writes a version marker with the version of the key.
func (t *tx) removeUpTo(ts *stagedSpace, key []byte, limit uint64) error {
	return t.removeWhere(ts, key, limit, func(*format.Body) bool { return true })
}

// removeWhere removes the records of key up to version limit for which match returns true.
// before is a copy of the state, since reloadKeyState drops the one in the cache. Records come
// in the order of versions, which for one key is the order of positions. So positions ascends,
// as editFeed requires.
func (t *tx) removeWhere(ts *stagedSpace, key []byte, limit uint64, match func(*format.Body) bool) error {
	h, err := t.keyState(ts, key)
	if err != nil {
		return err
	}
	before, bytes := *h, ts.totals.Bytes
	ts.dirty = true
	var positions []uint64
	newestGone, left := false, false
	err = t.eachRecord(ts, key, limit, func(r held) error {
		if !match(&r.body) {
			left = true
			return nil
		}
		t.del(r.dbKey)
		ts.totals.Records--
		ts.totals.Bytes -= r.body.Size() + int64(len(key))
		positions = append(positions, r.body.Position)
		newestGone = newestGone || r.body.Version == before.version
		return nil
	})
	if err != nil {
		return err
	}
	ts.removed += bytes - ts.totals.Bytes
	if newestGone { // limit is at least its version, so left is about all records
		t.leaveMarker(ts, key, before.version, ts.written(&before), left)
	}
	h, err = t.reloadKeyState(ts, key, before.held)
	if err != nil {
		return err
	}
	if before.marker && before.held && !h.held { // the marker is all that is left
		t.leaveMarker(ts, key, h.version, ts.written(h), false)
	}
	return t.editFeed(ts, positions, nil)
}

// leaveMarker writes a version marker as the newest record of key. It takes no position and has
// no feed entry. In a slot a marker that is the last trace of its key expires when a tombstone
// would, and then the floor of the space rises instead. With left set, records of the key are
// left, and the marker stays as long as they do. written is the position of the newest record
// that was ever written to the key, so that conditions on it hold or fail as before the removal.
func (t *tx) leaveMarker(ts *stagedSpace, key []byte, version, written uint64, left bool) {
	b := format.Body{Version: version, Position: t.markerPosition(), Time: t.time, Clock: t.Now, Count: 1, VersionMarker: true}
	b.SetWritten(written)
	if age := tombstoneAge(ts.policy); !left && age > 0 && age < math.MaxInt64-t.Now {
		b.Expires = t.Now + age
		t.indexExpiry(ts, key, &b)
	}
	hk := t.stateKey(ts, key)
	if !slots(ts.policy) {
		hk = format.AppendVersion(hk, version)
	}
	t.body = format.AppendBody(t.body[:0], &b, nil)
	t.set(hk, t.body)
}

// reloadKeyState reads the state of key again after an edit, and reduces the number of keys if
// the key holds nothing any more. It must come after all changes of the edit to the state.
func (t *tx) reloadKeyState(ts *stagedSpace, key []byte, wasHeld bool) (*keyState, error) {
	t.l.keyStates.drop(t.stateKey(ts, key))
	h, err := t.keyState(ts, key)
	if err != nil {
		return nil, err
	}
	if wasHeld && !h.held {
		ts.totals.Keys--
	}
	return h, nil
}

// purge writes a tombstone and removes all records before it. In a plain tx the slot held the
// only record, and the tombstone has overwritten it.
func (t *tx) purge(ts *stagedSpace, w *mainstem.Write) (mainstem.Version, error) {
	v, err := t.tombstone(ts, w, mainstem.Purged)
	if err != nil || v == 0 || !t.indexed {
		return v, err
	}
	return v, t.removeUpTo(ts, w.Key, uint64(v)-1)
}

// forget removes every record of key and writes none. A version marker keeps the version of the
// key, so that it is not given again.
func (t *tx) forget(ts *stagedSpace, key []byte) error {
	if !t.indexed {
		return t.forgetSlot(ts, key)
	}
	return t.removeUpTo(ts, key, math.MaxUint64)
}

// forgetSlot is forget in a plain tx. The slot holds all that there is of the key, unless it
// holds a version marker: then an older record, left of a longer history, may be behind it.
func (t *tx) forgetSlot(ts *stagedSpace, key []byte) error {
	h, err := t.keyState(ts, key)
	if err != nil || !h.held {
		return err
	}
	bytes, written := ts.totals.Bytes, ts.written(h)
	if h.marker {
		prefix := format.AppendPrefix(nil, format.TagOlder, ts.s.id, key)
		if err := t.trimOlder(ts, prefix, len(key), 0); err != nil {
			return err
		}
	} else {
		t.dropSlotRecord(ts, h)
	}
	// A marker is written even over another marker. The hot tier has the slot then, so no reader
	// looks in Pebble for the older record, which stays there until Pebble has this group.
	t.leaveMarker(ts, key, h.version, written, false)
	ts.dirty = true
	ts.removed += bytes - ts.totals.Bytes
	ts.totals.Keys--
	*h = keyState{version: h.version, written: written, marker: true}
	return nil
}

// truncate removes the records of key that end below the version before. One more than the
// present version removes all of them. A higher one is refused, since it would include a record
// that does not exist yet.
func (t *tx) truncate(ts *stagedSpace, key []byte, before uint64) error {
	h, err := t.keyState(ts, key)
	if err != nil || !h.held {
		return err
	}
	if before > h.version+1 {
		e := editError(ts, key, mainstem.KindInvalid)
		e.Err = fmt.Errorf("truncate before version %d: it is in the future, the key is at version %d", before, h.version)
		return e
	}
	return t.removeUpTo(ts, key, before-1)
}

func editError(ts *stagedSpace, key []byte, kind mainstem.Kind) *mainstem.Error {
	return &mainstem.Error{
		Kind: kind, Op: "commit", Space: ts.s.name, Key: append([]byte(nil), key...), Outcome: mainstem.NotWritten,
	}
}

func noSuchVersion(ts *stagedSpace, key []byte, op mainstem.Op, version uint64) error {
	e := editError(ts, key, mainstem.KindNotFound)
	e.Err = fmt.Errorf("%s: no record ends at version %d", op, version)
	return e
}

// removeOne removes the record of key that ends at version. The record must be visible: expired
// records are removed by the sweeper only.
func (t *tx) removeOne(ts *stagedSpace, key []byte, version uint64) error {
	_, b, err := t.findRecord(ts, key, version)
	if err != nil {
		return err
	}
	if b == nil {
		return noSuchVersion(ts, key, mainstem.OpRemove, version)
	}
	return t.removeWhere(ts, key, version, func(b *format.Body) bool { return b.Version == version })
}

// findRecord returns the record of key that ends at version and is visible now.
func (t *tx) findRecord(ts *stagedSpace, key []byte, version uint64) ([]byte, *format.Body, error) {
	var k []byte
	if slots(ts.policy) {
		k = format.AppendSlotKey(nil, ts.s.id, key)
		b, err := t.readBody(k)
		if err != nil {
			return nil, nil, err
		}
		if b != nil && b.Version == version {
			return k, b.visible(&t.moment, ts.maxAge), nil
		}
		k = format.AppendPrefix(nil, format.TagOlder, ts.s.id, key)
	} else {
		k = format.AppendPrefix(nil, format.TagVersion, ts.s.id, key)
	}
	k = format.AppendVersion(k, version)
	b, err := t.readBody(k)
	if err != nil || b == nil {
		return nil, nil, err
	}
	return k, b.visible(&t.moment, ts.maxAge), nil
}

// ownedBody is a body with bytes of its own, which stay valid when the tx continues.
type ownedBody struct{ format.Body }

// visible returns the body if a reader would see it at m, and nil otherwise.
func (b *ownedBody) visible(m *moment, maxAge int64) *format.Body {
	if !m.visible(&b.Body, maxAge) {
		return nil
	}
	return &b.Body
}

// readBody returns the rebased body under k, which may be a version marker, or nil if there is
// none.
func (t *tx) readBody(k []byte) (*ownedBody, error) {
	v, err := t.read(k)
	if err != nil || v == nil {
		return nil, err
	}
	b, err := format.DecodeBody(v)
	t.rebase(&b)
	return &ownedBody{b}, err
}

// rewrite replaces the value and headers of one record in place. Version, position, time and
// expiry stay, so neither the order of the feed nor any index changes. A tombstone still has no
// value.
func (t *tx) rewrite(ts *stagedSpace, w *mainstem.Write) error {
	k, old, err := t.findRecord(ts, w.Key, uint64(w.Version))
	if err != nil {
		return err
	}
	if old == nil {
		return noSuchVersion(ts, w.Key, mainstem.OpRewrite, uint64(w.Version))
	}
	b := *old
	v, err := t.read(k)
	if err != nil {
		return err
	}
	// Its times are kept as they were written, not rebased, since marks may become void.
	written, err := format.DecodeBody(v)
	if err != nil {
		return err
	}
	b.Clock, b.Expires = written.Clock, written.Expires
	if b.Value = w.Value; b.Tombstone != mainstem.Live {
		b.Value = nil
	}
	t.body = format.AppendBody(t.body[:0], &b, w.Headers)
	t.set(k, t.body)
	ts.dirty = true
	ts.totals.Bytes -= old.Size()
	if nb, err := format.DecodeBody(t.body); err == nil {
		ts.totals.Bytes += nb.Size()
	}

	t.l.keyStates.drop(t.stateKey(ts, w.Key)) // its size changed

	entry := append([]byte(nil), t.body...)
	if len(b.Value) > format.InlineMax {
		b.External = true
		entry = format.AppendBody(nil, &b, w.Headers)
	}
	return t.editFeed(ts, []uint64{b.Position}, entry)
}

// editFeed removes the feed entries at positions, which must ascend. With one position and a
// replacement, it replaces the body of that entry instead.
func (t *tx) editFeed(ts *stagedSpace, positions []uint64, replacement []byte) error {
	if ts.policy.NoFeed || len(positions) == 0 {
		return nil
	}
	t.closeBlock(ts) // so that an entry added by this tx can be found in the tx
	if slots(ts.policy) && replacement == nil {
		for _, p := range positions {
			t.del(format.AppendFeedKey(nil, ts.s.id, p))
		}
		return nil
	}
	for len(positions) > 0 {
		rest, err := t.editBlock(ts, positions, replacement)
		if err != nil {
			return err
		}
		positions = rest
	}
	return nil
}

// editBlock edits the block that holds positions[0] and returns the positions that are not in
// it. The block is the last one that begins at or below positions[0], since blocks do not
// overlap. A block that loses its first entry keeps its key: readers skip by the positions of
// entries, not of blocks. A block that loses all entries is deleted. Each call removes at least
// one position or reports damage, so the loop in editFeed ends.
func (t *tx) editBlock(ts *stagedSpace, positions []uint64, replacement []byte) ([]uint64, error) {
	keyState := format.AppendHead(nil, format.TagFeed, ts.s.id)
	it, err := t.iter(&pebble.IterOptions{LowerBound: keyState, UpperBound: format.AppendFeedKey(nil, ts.s.id, positions[0]+1)})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	if !it.Last() {
		if it.Error() != nil {
			return nil, it.Error()
		}
		return nil, fmt.Errorf("feed of space %s: no block holds position %d: %w", ts.s.name, positions[0], format.ErrCorrupt)
	}
	block, err := it.ValueAndErr()
	if err != nil {
		return nil, err
	}
	out, rest, err := rebuildBlock(block, positions, replacement)
	if err != nil {
		return nil, err
	}
	if len(rest) == len(positions) {
		return nil, fmt.Errorf("feed of space %s: position %d is missing: %w", ts.s.name, positions[0], format.ErrCorrupt)
	}
	if len(out) == 0 {
		t.del(it.Key())
	} else {
		t.set(it.Key(), out)
	}
	return rest, nil
}

// rebuildBlock copies block without the entries at positions, or with their body replaced, and
// returns the positions that are not in the block.
func rebuildBlock(block []byte, positions []uint64, replacement []byte) (out []byte, rest []uint64, err error) {
	for len(block) > 0 {
		key, body, next, err := format.NextFeedEntry(block)
		if err != nil {
			return nil, nil, err
		}
		block = next
		p, err := format.PeekPosition(body)
		if err != nil {
			return nil, nil, err
		}
		if len(positions) == 0 || p != positions[0] {
			out = format.AppendFeedEntry(out, key, body)
			continue
		}
		positions = positions[1:]
		if replacement != nil {
			out = format.AppendFeedEntry(out, key, replacement)
		}
	}
	return out, positions, nil
}
