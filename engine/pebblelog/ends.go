package pebblelog

import (
	"context"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// Ends returns the oldest and the newest record of a key, the first ones that Read yields in
// either direction, without their keys, values and headers. Both have Version 0 if there is
// none. If the space keeps all history and the hot tier has all records of the key, Ends takes
// one lookup in memory; otherwise it takes two reads. A record may be committed between these:
// oldest is the oldest one of the versions up to newest. If the space does not exist, the error
// is NotFound.
func (l *Log) Ends(ctx context.Context, space string, key []byte) (oldest, newest mainstem.Record, err error) {
	if err := mainstem.ValidateKey(key); err != nil {
		return oldest, newest, err
	}
	r, err := l.view().begin(ctx, "ends", space)
	if err != nil {
		return oldest, newest, err
	}
	found := false
	if !r.slots {
		oldest, newest, found, err = r.hotEnds(ctx, key)
	}
	r.end()
	if found || err != nil {
		return oldest, newest, mapError("ends", err)
	}
	if newest, err = l.end(ctx, space, key, mainstem.Versions{Reverse: true, Limit: 1}); err != nil || newest.Version == 0 {
		return oldest, newest, err
	}
	oldest, err = l.end(ctx, space, key, mainstem.Versions{To: newest.Version, Limit: 1})
	return oldest, newest, err
}

// end returns the first record of a selection, or a record of version 0.
func (l *Log) end(ctx context.Context, space string, key []byte, sel mainstem.Versions) (end mainstem.Record, err error) {
	for rec, err := range l.Read(ctx, space, key, sel) {
		if err != nil {
			return end, err
		}
		end = rec
		end.Key, end.Value, end.Headers = nil, nil, nil
	}
	return end, nil
}

// hotEnds finds both ends of a key in the hot tier, if the tier has all records of the key.
func (r *read) hotEnds(ctx context.Context, key []byte) (oldest, newest mainstem.Record, found bool, err error) {
	var stack [128]byte
	prefix := format.AppendPrefix(stack[:0], format.TagVersion, r.s.id, key)
	records := r.hotRecords(prefix)
	n := records.Len()
	if n == 0 {
		return oldest, newest, r.neverWritten(prefix), nil
	}
	var first, last format.Body
	if err := first.Decode(records.At(0)); err != nil {
		return oldest, newest, false, err
	}
	if first.Version != uint64(first.Count) || !r.visible(&first) { // not the first record ever, or expired
		return oldest, newest, false, nil
	}
	if err := last.Decode(records.At(n - 1)); err != nil {
		return oldest, newest, false, err
	}
	if err := r.awaitPublished(ctx, r.op); err != nil {
		return oldest, newest, false, err
	}
	if !r.visible(&last) || last.Position > r.head() {
		return oldest, newest, false, nil
	}
	return r.bare(&first), r.bare(&last), true, nil
}

// bare returns a record without key, value and headers.
func (r *read) bare(b *format.Body) mainstem.Record {
	rec := mainstem.Record{
		Space: r.s.name, Version: mainstem.Version(b.Version), Position: mainstem.Position(b.Position),
		Time: time.Unix(0, b.Time), Count: b.Count, Tombstone: b.Tombstone,
	}
	if b.Expires != 0 && b.Tombstone == mainstem.Live {
		rec.Expires = time.Unix(0, b.Expires)
	}
	return rec
}

// Last returns the position of the newest record that was ever written to a space, deletions
// included, as [mainstem.SpaceInfo] has it, or 0 if the space does not exist. It takes no lock
// and allocates nothing.
func (l *Log) Last(_ context.Context, space string) (mainstem.Position, error) {
	if err := l.usable("last"); err != nil {
		return 0, err
	}
	s := l.spaces.Load().byName[space]
	if s == nil {
		return 0, nil
	}
	last := s.last.Load()
	if last > l.position.Load() {
		last = s.totals().Last // waits until the tx that is being shown is visible
	}
	return mainstem.Position(last), nil
}
