package event

import (
	"bytes"
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/outcome"
)

// maxGone is how many streams one pass of a sweep looks for.
const maxGone = 10_000

// SweepIndex removes from the index the records of events that are gone: deleted, truncated,
// tombstoned or forgotten since the last sweep. Readers pass over them in any case; a sweep
// takes back their space, and the names of the streams. It reads the whole index if there are
// any, and nothing if not. [Store.Scavenge] calls it. Interrupted, it is repeated
// by the next call. While an index is built it does nothing. It returns how many records it removed.
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
			if err != nil || !now.readable() || now.at != x.at { // the index was built anew, without what is gone
				return removed, err
			}
			continue // the inline projections are others
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
	seen    []mainstem.Condition // that the markers are still those
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
	suspect  bool   // it is of a stream that lost events
	dead     bool   // its event is gone
	value    []byte // of a suspect, without the stream
}

// key removes from a key, up to its version newest, the records whose events are gone.
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

// sweptKey is the pass over one key.
type sweptKey struct {
	*sweep
	key     []byte
	newest  mainstem.Version
	leading bool // every record so far is dead
}

// remove removes those of refs that are dead. The newest record of a key stays, without its
// stream, if older ones do: without it the key would be in no list of keys.
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

// findDead sets dead where there is no event.
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

// forgetMarkers removes the markers of the streams that were looked for. One that was written
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
