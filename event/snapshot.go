package event

import (
	"context"
	"strconv"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Snapshot is the state computed from a stream's events, as of one version.
type Snapshot struct {
	Stream  string
	Version mainstem.Version // of the last event that the state contains
	Type    string           // kind and form of Data; optional
	Data    []byte
	Time    time.Time // when it was saved; ignored by SaveSnapshot
}

// A snapshot is one record of the space event.snapshot/<store>: the key is the
// stream, the value Data, the header $version the version in decimal and the header
// $type the type.
const headerVersion = "$version"

// SaveSnapshotTo saves a snapshot as part of b, so that it can be committed together with the
// events that it is computed from. [Store.LoadState] uses it to read fewer events; an older
// snapshot saved after a newer one only makes loading slower. The stream must have events, before b
// or through an Append in b, since a snapshot is computed from events: otherwise the batch fails
// with a [*ConflictError] that says so. Store state without events in a bucket of package kv. The
// batch borrows Data until Commit has returned.
func (s *Store) SaveSnapshotTo(b *mainstem.Batch, snap Snapshot) {
	err := checkStream("save snapshot", snap.Stream)
	switch {
	case err != nil:
	case snap.Version == 0:
		err = mainstem.Refusef(mainstem.KindInvalid, "save snapshot", "stream %.60q: version 0: want the version of the last event that the state contains", snap.Stream)
	case len(snap.Type) > MaxType || !plain(snap.Type):
		err = mainstem.Refusef(mainstem.KindInvalid, "save snapshot", "stream %.60q: type %.60q: want at most %d bytes of UTF-8 without control characters", snap.Stream, snap.Type, MaxType)
	}
	if err != nil {
		b.Fail(err)
		return
	}
	key := []byte(snap.Stream)
	if !s.appends(b, snap.Stream) {
		b.ExplainWith(s)
		b.IfExists(s.spaces.events, key)
	}
	headers := mainstem.Headers{{Name: headerVersion, Value: strconv.AppendUint(nil, uint64(snap.Version), 10)}}
	if snap.Type != "" {
		headers = append(headers, mainstem.Header{Name: headerType, Value: []byte(snap.Type)})
	}
	b.Ensure(s.spaces.snapshots, s.snapshotPolicy)
	b.Add(mainstem.Write{Space: s.spaces.snapshots, Key: key, Value: snap.Data, Headers: headers})
}

// appends reports whether b appends to stream. Conditions test the state before the batch, so a
// stream that b begins cannot be required to exist.
func (s *Store) appends(b *mainstem.Batch, stream string) bool {
	writes := b.Writes()
	for i := len(writes) - 1; i >= 0; i-- {
		w := &writes[i]
		if w.Op == mainstem.OpPut && w.Space == s.spaces.events && string(w.Key) == stream {
			return true
		}
	}
	return false
}

// onlySnapshot reports whether b writes a snapshot of stream and none of its events.
func (s *Store) onlySnapshot(b *mainstem.Batch, stream string) bool {
	snapshot := false
	writes := b.Writes()
	for i := range writes {
		if w := &writes[i]; w.Op == mainstem.OpPut && string(w.Key) == stream {
			snapshot = snapshot || w.Space == s.spaces.snapshots
			if w.Space == s.spaces.events {
				return false
			}
		}
	}
	return snapshot
}

// DeleteSnapshotsTo removes the snapshots of stream as part of b.
func (s *Store) DeleteSnapshotsTo(b *mainstem.Batch, stream string) {
	if err := checkStream("delete snapshots", stream); err != nil {
		b.Fail(err)
		return
	}
	s.forgetSnapshots(b, []byte(stream))
}

func (s *Store) forgetSnapshots(b *mainstem.Batch, key []byte) {
	b.Ensure(s.spaces.snapshots, s.snapshotPolicy)
	b.Add(mainstem.Write{Op: mainstem.OpForget, Space: s.spaces.snapshots, Key: key})
}

// Snapshot returns the newest snapshot of stream whose version is at most upTo (0: any), as it was
// saved, even if the stream was changed since so that it does not apply any more; [Store.LoadState]
// checks that. If there is none, the error is NotFound. Data belongs to the caller.
func (s *Store) Snapshot(ctx context.Context, stream string, upTo mainstem.Version) (Snapshot, error) {
	if err := checkStream("snapshot", stream); err != nil {
		return Snapshot{}, err
	}
	snap, _, err := s.snapshot(ctx, stream, &StateOptions{UpTo: upTo})
	if err == nil && snap == nil {
		return Snapshot{}, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "snapshot", Space: s.spaces.snapshots, Key: []byte(stream)}
	}
	if err != nil {
		return Snapshot{}, err
	}
	return *snap, nil
}

// snapshot returns the newest snapshot that o allows or nil, and the version of its record.
func (s *Store) snapshot(ctx context.Context, stream string, o *StateOptions) (*Snapshot, mainstem.Version, error) {
	if o.NoSnapshot {
		return nil, 0, nil // without a loop, whose variables would be allocated
	}
	return s.newestSnapshot(ctx, stream, o)
}

func (s *Store) newestSnapshot(ctx context.Context, stream string, o *StateOptions) (*Snapshot, mainstem.Version, error) {
	for rec, err := range s.log.Read(ctx, s.spaces.snapshots, []byte(stream), mainstem.Versions{Reverse: true}) {
		if err != nil {
			return nil, 0, ignoreNotFound(err)
		}
		if !rec.Live() {
			break
		}
		v, err := snapshotVersion(rec.Headers)
		if err != nil {
			return nil, 0, mainstem.Errorf(mainstem.KindCorrupt, "decode", "version %d: %w", rec.Version, err).At(s.spaces.snapshots, rec.Key)
		}
		typ, _ := rec.Headers.Get(headerType)
		if (o.UpTo == 0 || v <= o.UpTo) && (o.SnapshotType == "" || string(typ) == o.SnapshotType) {
			return &Snapshot{Stream: stream, Version: v, Type: string(typ), Data: rec.Clone().Value, Time: rec.Time}, rec.Version, nil
		}
	}
	return nil, 0, nil
}

func snapshotVersion(h mainstem.Headers) (mainstem.Version, error) {
	text, _ := h.Get(headerVersion)
	v, err := strconv.ParseUint(string(text), 10, 64)
	return mainstem.Version(v), err
}
