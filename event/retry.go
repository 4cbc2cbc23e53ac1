package event

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// batchID returns the ID of the batch that appends events to stream: the same for every attempt,
// and different for all other appends. It overwrites scratch.
func (s *Store) batchID(scratch *[]byte, stream string, events []Event) string {
	b := append((*scratch)[:0], s.name...)
	b = append(b, 0)
	b = append(b, stream...)
	b = append(b, 0)
	for i := range events {
		b = append(b, events[i].ID[:]...)
	}
	*scratch = b
	sum := sha256.Sum256(b)
	const prefix = "event:"
	var out [len(prefix) + 43]byte
	copy(out[:], prefix)
	base64.RawURLEncoding.Encode(out[len(prefix):], sum[:])
	return string(out[:])
}

// recover determines whether the error of an Append of identified events is a conflict with an
// earlier success of the same Append, which makes it a success.
func (s *Store) recover(ctx context.Context, stream string, expected Expected, events []Event, cause error) (Appended, error) {
	if expected < 0 || !errors.Is(cause, mainstem.ErrConflict) {
		return Appended{}, s.Explain(ctx, cause)
	}
	a, err := s.find(ctx, stream, expected, events)
	switch {
	case err != nil:
		return Appended{}, fmt.Errorf("append to stream %.64q: whether its conflict is a repetition cannot be read: %w", stream, err)
	case a.First == 0:
		return Appended{}, s.Explain(ctx, cause)
	}
	return a, nil
}

// find looks for events at the versions that an Append with an exact version, or no stream,
// expected must have given them. The result is zero if they are not there.
func (s *Store) find(ctx context.Context, stream string, expected Expected, events []Event) (Appended, error) {
	a := Appended{Stream: stream, Duplicate: true}
	n := 0
	dec := s.decoders.Get().(*decoder)
	defer s.decoders.Put(dec)
	v := mainstem.Versions{From: mainstem.Version(expected) + 1, Limit: len(events) + 1}
	for rec, err := range s.log.Read(ctx, s.spaces.events, []byte(stream), v) {
		if err != nil {
			return Appended{}, ignoreNotFound(err)
		}
		if !rec.Live() && n == 0 && expected == NoStream {
			continue // the stream begins after the tombstone of an earlier deletion
		}
		if !rec.Live() || n == 0 && expected != NoStream && rec.Version != v.From {
			break
		}
		if err := dec.f.parse(rec.Headers); err != nil || dec.f.id != events[n].ID {
			break
		}
		if n == 0 {
			a.First, a.FirstPosition = rec.Version, rec.Position
		}
		a.Last, a.LastPosition, a.Time = rec.Version, rec.Position, rec.Time
		if n++; n == len(events) {
			return a, nil
		}
	}
	return Appended{}, nil
}

// checkRetry returns nil if the first write of a, known by its batch ID, met the expectation of
// this append; otherwise the conflict.
func (s *Store) checkRetry(ctx context.Context, a Appended, expected Expected) error {
	before := a.First - 1 // version of the stream before the first write
	met := true
	switch {
	case expected == NoStream && before > 0:
		for rec, err := range s.log.Read(ctx, s.spaces.events, []byte(a.Stream), mainstem.Versions{From: before, To: before}) {
			if err != nil {
				return ignoreNotFound(err)
			}
			met = !rec.Live()
		}
	case expected > 0:
		met = mainstem.Version(expected) == before
	}
	if met {
		return nil
	}
	actual, live, err := s.newest(ctx, a.Stream)
	if err != nil {
		return err
	}
	cause := &mainstem.Error{
		Kind: mainstem.KindConflict, Op: "append", Space: s.spaces.events, Key: []byte(a.Stream), Outcome: mainstem.NotWritten,
		Got: actual, GotLive: live, Want: mainstem.Condition{Space: s.spaces.events, Key: []byte(a.Stream), Test: mainstem.TestAbsent},
	}
	if expected > 0 {
		cause.Want.Test, cause.Want.Version = mainstem.TestVersion, mainstem.Version(expected)
	}
	return s.Explain(ctx, cause)
}

// newest returns the version of the newest stored record of stream, 0 if there is none, and whether
// it is an event.
func (s *Store) newest(ctx context.Context, stream string) (v mainstem.Version, live bool, err error) {
	for rec, err := range s.log.Read(ctx, s.spaces.events, []byte(stream), mainstem.Versions{Reverse: true, Limit: 1}) {
		if err != nil {
			return 0, false, ignoreNotFound(err)
		}
		return rec.Version, rec.Live(), nil
	}
	return 0, false, nil
}

// ignoreNotFound returns nil for NotFound. It is for reads of spaces that do not exist before their
// first write.
func ignoreNotFound(err error) error {
	if isNotFound(err) {
		return nil
	}
	return err
}
