package event

import (
	"context"

	"github.com/mainstemdev/mainstem"
)

// Seal says whether a stream accepts events and, if not, why.
type Seal uint8

// The seals. Their names are persisted.
const (
	NotSealed  Seal = iota
	Archived        // read-only and left out of feeds and lists, until it is unarchived
	Tombstoned      // has no events, and none can be appended
)

var sealNames = [...]string{"not sealed", "archived", "tombstoned"}

// String returns "not sealed", "archived" or "tombstoned".
func (s Seal) String() string {
	if int(s) < len(sealNames) {
		return sealNames[s]
	}
	return "unknown seal"
}

// A seal is one record of the space event.seal/<store>: the key is the stream, the value the name
// of the seal. A stream without a live record is not sealed; every append has the condition that
// there is none.
var sealPolicy = mainstem.Policy{History: 1}

func parseSeal(value []byte) (Seal, bool) {
	for i := Archived; int(i) < len(sealNames); i++ {
		if string(value) == sealNames[i] {
			return i, true
		}
	}
	return NotSealed, false
}

// seal returns the seal of stream and the version of its record. In most stores no stream was ever
// sealed: a log that says so without a read is not read.
func (s *Store) seal(ctx context.Context, stream string) (Seal, mainstem.Version, error) {
	if log, ok := s.log.(laster); ok {
		if last, err := log.Last(ctx, s.spaces.seals); err != nil || last == 0 {
			return NotSealed, 0, err
		}
	}
	rec, err := s.log.Get(ctx, s.spaces.seals, []byte(stream))
	if err != nil {
		return NotSealed, 0, ignoreNotFound(err)
	}
	seal, err := s.sealOf(&rec)
	return seal, rec.Version, err
}

// sealOf returns the seal in a record.
func (s *Store) sealOf(rec *mainstem.Record) (Seal, error) {
	seal, ok := parseSeal(rec.Value)
	if !ok {
		return NotSealed, mainstem.Errorf(mainstem.KindCorrupt, "decode", "%.40q is not the name of a seal", rec.Value).At(s.spaces.seals, rec.Key)
	}
	return seal, nil
}

// everSealed reports whether any stream of the store was ever sealed.
func (s *Store) everSealed(ctx context.Context) (bool, error) {
	last, err := s.last(ctx, s.spaces.seals)
	return last > 0, err
}

// DeleteTo removes all events of stream as part of b, if the stream meets the expectation, and
// leaves a tombstone, which takes a version: after five events, the tombstone is version 6 and the
// next event 7. The stream then counts as missing ([NoStream] holds) and may be appended to again.
// Its snapshots are removed too; its settings stay. Feeds no longer contain the events; with
// [Filter.Deletions] they contain the tombstone. Deleting a stream without events does nothing. A
// deletion cannot be undone; [Store.ArchiveTo] can.
func (s *Store) DeleteTo(b *mainstem.Batch, stream string, expected Expected) {
	if !s.edit(b, "delete", stream, expected) {
		return
	}
	s.purge(b, []byte(stream))
	s.markGone(b, []byte(stream))
}

// TombstoneTo deletes stream like [Store.DeleteTo], together with its settings, and forbids further
// events, even if the stream never had any. This cannot be undone. An archived stream may be
// tombstoned.
func (s *Store) TombstoneTo(b *mainstem.Batch, stream string, expected Expected) {
	if err := s.checkStreamAnd("tombstone", stream, expected); err != nil {
		b.Fail(err)
		return
	}
	key := []byte(stream)
	b.Ensure(s.spaces.events, mainstem.Policy{})
	b.ExplainWith(s)
	expected.addCondition(b, s.spaces.events, key)
	s.purge(b, key)
	s.markGone(b, key)
	s.forgetSettings(b, key)
	b.Ensure(s.spaces.seals, sealPolicy)
	b.Put(s.spaces.seals, key, []byte(Tombstoned.String()))
}

// TruncateTo removes the events of stream with versions below before. The remaining events keep
// their versions. A stream without remaining events counts as missing, and its next event has the
// next version. A value more than one above the newest version is refused by the log.
func (s *Store) TruncateTo(b *mainstem.Batch, stream string, before mainstem.Version) {
	if before == 0 {
		b.Fail(mainstem.Refusef(mainstem.KindInvalid, "truncate", "stream %.60q: before version 0: want at least 1", stream))
		return
	}
	if s.edit(b, "truncate", stream, AnyVersion) {
		b.Truncate(s.spaces.events, []byte(stream), before)
		s.markGone(b, []byte(stream))
	}
}

// ArchiveTo archives stream as part of b: it accepts no events, and lists and feeds leave it out
// unless they include archived streams. Load, Events, StreamInfo and snapshots work as before. The
// stream must have events, and must not be sealed already. The cost does not depend on the length
// of the stream.
func (s *Store) ArchiveTo(b *mainstem.Batch, stream string) {
	if !s.edit(b, "archive", stream, StreamExists) {
		return
	}
	b.Ensure(s.spaces.seals, sealPolicy)
	b.Put(s.spaces.seals, []byte(stream), []byte(Archived.String()))
}

// UnarchiveTo makes an archived stream accept events again as part of b. It reads the seal of the
// stream, and adds the condition that the seal is unchanged at the commit. It fails with NotFound
// if stream is not archived, and with a [*SealedError] if it is tombstoned. An error is returned
// here and by Commit.
func (s *Store) UnarchiveTo(ctx context.Context, b *mainstem.Batch, stream string) error {
	version, err := s.archived(ctx, stream)
	if err != nil {
		b.Fail(err)
		return err
	}
	b.IfVersion(s.spaces.seals, []byte(stream), version)
	b.Delete(s.spaces.seals, []byte(stream))
	return nil
}

// archived returns the version of the seal of stream, which must be archived.
func (s *Store) archived(ctx context.Context, stream string) (mainstem.Version, error) {
	if err := checkStream("unarchive", stream); err != nil {
		return 0, err
	}
	seal, version, err := s.seal(ctx, stream)
	switch {
	case err != nil:
		return 0, err
	case seal == NotSealed:
		return 0, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "unarchive", Space: s.spaces.seals, Key: []byte(stream), Outcome: mainstem.NotWritten}
	case seal == Tombstoned:
		return 0, &SealedError{Store: s.name, Stream: stream, Seal: seal, cause: &mainstem.Error{
			Kind: mainstem.KindConflict, Op: "unarchive", Space: s.spaces.seals, Key: []byte(stream), Outcome: mainstem.NotWritten,
			Want: mainstem.Condition{Space: s.spaces.seals, Key: []byte(stream), Test: mainstem.TestAbsent}, Got: version, GotLive: true,
		}}
	}
	return version, nil
}

// ForgetTo removes every trace of stream as part of b: events, snapshots, settings and seal.
// Readers and feeds find nothing, not even a tombstone. It works on sealed streams too. The stream
// may be used again; its versions do not repeat. To erase single events use [Store.RewriteTo].
func (s *Store) ForgetTo(b *mainstem.Batch, stream string) {
	if err := checkStream("forget", stream); err != nil {
		b.Fail(err)
		return
	}
	key := []byte(stream)
	b.Ensure(s.spaces.events, mainstem.Policy{})
	// The purge takes a version. So a snapshot that is saved late, by a process that loaded the
	// stream before, can be told from one of the stream after the deletion.
	b.Add(mainstem.Write{Op: mainstem.OpPurge, Space: s.spaces.events, Key: key})
	b.Add(mainstem.Write{Op: mainstem.OpForget, Space: s.spaces.events, Key: key})
	b.ExplainWith(s)
	s.markGone(b, key)
	s.forgetSnapshots(b, key)
	s.forgetSettings(b, key)
	b.Ensure(s.spaces.seals, sealPolicy)
	b.Add(mainstem.Write{Op: mainstem.OpForget, Space: s.spaces.seals, Key: key})
}

// RewriteTo replaces type, data and metadata of the event of stream at version, for redaction and
// for encrypting stored events. Version, position and time stay; ev must have the ID of the event.
// It works on archived streams. Snapshots, projections and other data derived from the event are
// not changed. The index of the store, if it has one, still finds the event by the types and tags
// of its append that the event still has; [Store.Retag] enters new ones. If there is no such event,
// the log returns NotFound.
func (s *Store) RewriteTo(b *mainstem.Batch, stream string, version mainstem.Version, ev Event) {
	err := checkStream("rewrite", stream)
	if err == nil {
		err = ev.check("rewrite", 0, s.opts.MaxEventBytes)
	}
	if err == nil && (ev.ID.IsZero() || version == 0) {
		err = mainstem.Refusef(mainstem.KindInvalid, "rewrite", "stream %.60q: version %d, event ID %s: want both of the event to rewrite", stream, version, ev.ID)
	}
	if err != nil {
		b.Fail(err)
		return
	}
	var enc encoder
	enc.reserve([]Event{ev}, len(stream))
	key := enc.keep(stream)
	b.Rewrite(s.spaces.events, key, version, ev.Data, enc.event(&ev, ev.ID))
	s.markRewritten(b)
}

// edit prepares b for a change of stream, which must not be sealed and must meet the expectation.
func (s *Store) edit(b *mainstem.Batch, op, stream string, expected Expected) bool {
	if err := s.checkStreamAnd(op, stream, expected); err != nil {
		b.Fail(err)
		return false
	}
	key := []byte(stream)
	b.Ensure(s.spaces.events, mainstem.Policy{})
	b.ExplainWith(s)
	b.IfAbsent(s.spaces.seals, key)
	expected.addCondition(b, s.spaces.events, key)
	return true
}

func (s *Store) purge(b *mainstem.Batch, key []byte) {
	b.Add(mainstem.Write{Op: mainstem.OpPurge, Space: s.spaces.events, Key: key})
	s.forgetSnapshots(b, key)
}
