package event

import (
	"context"
	"time"

	"github.com/mainstemdev/mainstem"
)

// StreamInfo describes one stream.
type StreamInfo struct {
	Stream  string
	Version mainstem.Version // newest version: the argument of [AtVersion] for the next append
	First   mainstem.Version // version of the oldest event held, 0 if there is none
	Count   uint64           // events held
	// Position is that of the newest event, or of the tombstone if the stream was deleted.
	Position mainstem.Position
	// Created is the time of the oldest stored event, Updated that of the newest, or of the
	// tombstone.
	Created, Updated time.Time
	Deleted          bool // the stream has a tombstone and no events
	Seal             Seal // whether it accepts events
}

// StreamInfo describes stream without reading all of it. A stream that was never written, was
// forgotten, or was truncated completely is NotFound; for one that was deleted, Deleted is set and
// Count is 0.
func (s *Store) StreamInfo(ctx context.Context, stream string) (StreamInfo, error) {
	if err := checkStream("stream info", stream); err != nil {
		return StreamInfo{}, err
	}
	in := StreamInfo{Stream: stream}
	key := []byte(stream)
	oldest, newest, err := s.ends(ctx, key)
	if err != nil {
		return StreamInfo{}, err
	}
	in.Version, in.Position, in.Updated, in.Deleted = newest.Version, newest.Position, newest.Time, !newest.Live()
	if in.Seal, _, err = s.seal(ctx, stream); err != nil {
		return StreamInfo{}, err
	}
	switch {
	case in.Version == 0 && in.Seal == Tombstoned: // the stream never had events
		in.Deleted = true
		return in, nil
	case in.Version == 0:
		return StreamInfo{}, s.streamNotFound("stream info", stream, mainstem.NoOutcome)
	case in.Deleted:
		in.Created = in.Updated
		return in, nil
	case oldest.Version > 0 && oldest.Live():
		in.begin(&oldest)
		return in, nil
	}
	// The oldest event comes after the tombstone of an earlier deletion, if there is one.
	if oldest, err = s.firstLive(ctx, key, mainstem.Versions{To: in.Version, Limit: 2}); err != nil {
		return StreamInfo{}, err
	}
	if oldest.Version > 0 {
		in.begin(&oldest)
	}
	return in, nil
}

// begin records the oldest event.
func (in *StreamInfo) begin(rec *mainstem.Record) {
	in.First, in.Created, in.Count = rec.Version, rec.Time, uint64(in.Version-rec.Version)+1
}

// ender is a log that reads both ends of a key at once, like that of engine/pebblelog.
type ender interface {
	Ends(ctx context.Context, space string, key []byte) (oldest, newest mainstem.Record, err error)
}

// ends returns the newest record of a stream, with version 0 if there is none, and, if the log can,
// the oldest. Only their versions, positions, times and tombstones are valid.
func (s *Store) ends(ctx context.Context, key []byte) (oldest, newest mainstem.Record, err error) {
	if log, ok := s.log.(ender); ok {
		oldest, newest, err = log.Ends(ctx, s.spaces.events, key)
		return oldest, newest, ignoreNotFound(err)
	}
	newest, err = s.tip(ctx, key)
	return oldest, newest, err
}

// tip returns the newest record of a stream, with version 0 if there is none.
func (s *Store) tip(ctx context.Context, key []byte) (newest mainstem.Record, err error) {
	for rec, err := range s.log.Read(ctx, s.spaces.events, key, mainstem.Versions{Reverse: true, Limit: 1}) {
		if err != nil {
			return newest, ignoreNotFound(err)
		}
		newest = rec
	}
	return newest, nil
}

// firstLive returns the first event of a selection, with version 0 if there is none.
func (s *Store) firstLive(ctx context.Context, key []byte, sel mainstem.Versions) (first mainstem.Record, err error) {
	for rec, err := range s.log.Read(ctx, s.spaces.events, key, sel) {
		if err != nil || rec.Live() {
			return rec, err
		}
	}
	return first, nil
}

// LastPosition returns the position of the newest record of the store, deletions included; 0 if
// there was none.
func (s *Store) LastPosition(ctx context.Context) (mainstem.Position, error) {
	return s.last(ctx, s.spaces.events)
}

// laster is a log that has the position of the newest record of a space at hand, like that of
// engine/pebblelog. It returns 0 for a space that does not exist.
type laster interface {
	Last(ctx context.Context, space string) (mainstem.Position, error)
}

// last returns the position of the newest record that was ever written to a space, 0 if there is
// none or no space.
func (s *Store) last(ctx context.Context, space string) (mainstem.Position, error) {
	if log, ok := s.log.(laster); ok {
		return log.Last(ctx, space)
	}
	info, err := s.log.Space(ctx, space)
	return info.Last, ignoreNotFound(err)
}

// Stats describes a whole store.
type Stats struct {
	Streams int64             // streams that hold an event or a tombstone
	Events  int64             // events and tombstones held
	Bytes   int64             // of their names, headers and data, before compression
	Last    mainstem.Position // of the newest record ever written
	Created time.Time
	Updated time.Time
}

// Stats describes the store. A store that was never written to has the zero Stats.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	info, err := s.log.Space(ctx, s.spaces.events)
	if err != nil {
		return Stats{}, ignoreNotFound(err)
	}
	return Stats{info.Keys, info.Records, info.Bytes, info.Last, info.Created, info.Updated}, nil
}
