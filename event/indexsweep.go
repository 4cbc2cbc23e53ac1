package event

import (
	"bytes"
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/outcome"
)

// maxGone is the number of streams that one pass of a sweep handles.
const maxGone = 10_000

// SweepIndex removes from the index the records of events that were deleted, truncated, tombstoned
// or forgotten since the last sweep, and returns how many it removed. Readers skip such records in
// any case; a sweep frees their space and removes the names of the streams. It reads the whole
// index if there were such events, and nothing otherwise. [Store.Scavenge] calls it. The next call
// repeats an interrupted one. While an index is built it does nothing.
func (s *Store) SweepIndex(ctx context.Context) (int, error) {
	removed := 0
	for {
		x, err := s.readIndex(ctx)
		if err != nil || !x.readable() {
			return removed, err
		}
		sw := &sweep{Store: s, x: x, gone: make(map[string]bool)}
		err = sw.run(ctx)
		removed += sw.removed
		if errors.Is(err, mainstem.ErrConflict) {
			now, err := s.readIndex(ctx)
			if err != nil || !now.readable() || now.at != x.at { // the index was built anew, without these records
				return removed, err
			}
			continue // the inline projections have changed
		}
		if err != nil || len(sw.markers) < maxGone {
			return removed, err
		}
	}
}

// sweep is one pass over the index.
type sweep struct {
	*Store
	x       *index
	gone    map[string]bool // streams
	markers []mainstem.Write
	seen    []mainstem.Condition // conditions that the markers are unchanged
	batch   *mainstem.Batch
	removed int
}

func (sw *sweep) run(ctx context.Context) error {
	for rec, err := range sw.log.Scan(ctx, sw.spaces.tags, mainstem.Range{Prefix: []byte(gonePrefix), Limit: maxGone}) {
		if err != nil {
			return err
		}
		sw.gone[string(rec.Value)] = true
		key := bytes.Clone(rec.Key)
		sw.markers = append(sw.markers, mainstem.Write{Op: mainstem.OpForget, Space: sw.spaces.tags, Key: key})
		sw.seen = append(sw.seen, mainstem.Condition{Space: sw.spaces.tags, Key: key, Test: mainstem.TestVersion, Version: rec.Version})
	}
	if len(sw.markers) == 0 {
		return nil
	}
	sw.batch = sw.buildBatch()
	for rec, err := range sw.log.Scan(ctx, sw.spaces.tags, mainstem.Range{KeysOnly: true}) {
		if err != nil {
			return err
		}
		if !isEventKey(bytes.TrimPrefix(rec.Key, []byte(builtPrefix))) {
			continue
		}
		if err := sw.key(ctx, bytes.Clone(rec.Key), rec.Version); err != nil {
			return err
		}
	}
	if err := sw.flush(ctx); err != nil {
		return err
	}
	return sw.forgetMarkers(ctx)
}

// entryRef is a record of the index.
type entryRef struct {
	version  mainstem.Version
	position mainstem.Position
	suspect  bool   // its stream lost events
	dead     bool   // its event is gone
	value    []byte // of a suspect: the value without the stream
}

// key removes the records whose events are gone from a key, up to version newest.
func (sw *sweep) key(ctx context.Context, key []byte, newest mainstem.Version) error {
	k := &sweptKey{sweep: sw, key: key, newest: newest, leading: true}
	var refs []entryRef
	for rec, err := range sw.log.Read(ctx, sw.spaces.tags, key, mainstem.Versions{To: newest}) {
		if err != nil {
			return err
		}
		p, stream, err := decodeEntry(&rec)
		if err != nil {
			return err
		}
		ref := entryRef{version: rec.Version, position: p, suspect: len(stream) == 0 || sw.gone[string(stream)]}
		if ref.suspect {
			ref.value = bytes.Clone(rec.Value[:len(rec.Value)-len(stream)])
		}
		if refs = append(refs, ref); len(refs) == keysOfCommit {
			if err := k.remove(ctx, refs); err != nil {
				return err
			}
			refs = refs[:0]
		}
	}
	return k.remove(ctx, refs)
}

// sweptKey is the sweep of one key.
type sweptKey struct {
	*sweep
	key     []byte
	newest  mainstem.Version
	leading bool // every record so far is dead
}

// remove removes the dead records of refs. If older records remain, the newest record of the key
// stays, without its stream: otherwise the key would be missing in scans of keys.
func (k *sweptKey) remove(ctx context.Context, refs []entryRef) error {
	if err := k.findDead(ctx, refs); err != nil {
		return err
	}
	before := mainstem.Version(0)
	for i := range refs {
		e := &refs[i]
		switch {
		case !e.dead:
			k.leading = false
			continue
		case k.leading:
			before = e.version + 1
		case e.version < k.newest:
			k.batch.Add(mainstem.Write{Op: mainstem.OpRemove, Space: k.spaces.tags, Key: k.key, Version: e.version})
		default:
			k.batch.Rewrite(k.spaces.tags, k.key, e.version, e.value, nil)
			continue
		}
		k.removed++
	}
	if before > 0 {
		k.batch.Truncate(k.spaces.tags, k.key, before)
	}
	if k.batch.Len() >= keysOfCommit {
		return k.flush(ctx)
	}
	return nil
}

// findDead sets dead for the records whose events are gone.
func (sw *sweep) findDead(ctx context.Context, refs []entryRef) error {
	var at []mainstem.Position
	for i := range refs {
		if refs[i].suspect {
			at = append(at, refs[i].position)
		}
	}
	held := make(map[mainstem.Position]bool)
	scan := &indexScan{Store: sw.Store}
	_, err := scan.events(ctx, at, func(rec *mainstem.Record) (bool, error) {
		held[rec.Position] = rec.Live()
		return true, nil
	})
	for i := range refs {
		refs[i].dead = refs[i].suspect && !held[refs[i].position]
	}
	return err
}

func (sw *sweep) flush(ctx context.Context) error {
	b := sw.batch
	if b.Len() == 0 {
		return nil
	}
	sw.batch = sw.buildBatch()
	sw.expectControl(b, sw.x)
	_, err := outcome.Commit(ctx, sw.log, b)
	if errors.Is(err, mainstem.ErrNotFound) { // another sweep has removed it
		return mainstem.Refusef(mainstem.KindConflict, "sweep index", "%w", err)
	}
	return err
}

// forgetMarkers removes the markers of the streams that were handled. A marker that was written
// again meanwhile stays for the next sweep.
func (sw *sweep) forgetMarkers(ctx context.Context) error {
	for i := range sw.markers {
		b := sw.buildBatch()
		sw.expectControl(b, sw.x)
		b.If(sw.seen[i])
		b.Add(sw.markers[i])
		if _, err := outcome.Commit(ctx, sw.log, b); err != nil && !errors.Is(err, mainstem.ErrConflict) {
			return err
		}
	}
	return nil
}
