package pebblelog

import (
	"bytes"
	"context"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// A scan reads one range of Pebble's keys with one iterator, which shows one moment.
//
// Three steps, in this order, make it a view of the log at one moment, not older than the call:
//
//	1. drain: Pebble gets all groups with changes of the space that readers could see.
//	2. NewIter: the view. It has whole groups, in their order, since Pebble gets them so.
//	   Groups that reach the hot tier after step 1 may be missing: they are concurrent.
//	3. awaitPublished: positions and totals of a group in the view may not be published yet.
//	   The gate was closed before Pebble got the group. So either it is still closed here, or
//	   it has opened again, and the group is published. Waiting before step 2 is not
//	   sufficient: a group could be shown in between.
//
// After step 3 only a record of a group whose publication failed can be above the head. The
// group is in the journal, and its outcome was reported as unknown, so the scan fails as well
// (doubtful) and neither shows nor omits the record.
//
// Keys are in the order of their bytes. Slots contain the user's keys unchanged. Version keys
// contain them escaped, in a way that keeps the order and marks the end. So all versions of a
// key are adjacent, and versions of a longer key are not between them.

// Scan implements [mainstem.Reader].
func (l *Log) Scan(ctx context.Context, space string, r mainstem.Range) iter.Seq2[mainstem.Record, error] {
	return l.view().scan(ctx, space, r)
}

func (v view) scan(ctx context.Context, space string, rng mainstem.Range) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		if err := rng.Validate(); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		r, err := v.begin(ctx, "scan", space)
		if err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		defer r.end()
		s := scan{read: &r, rng: rng, yield: yield, left: rng.Limit}
		s.lender.Record.Space = space
		if err := s.run(ctx); err != nil {
			yield(mainstem.Record{}, mapError("scan", err))
		}
	}
}

// scan is one scan under way. One goroutine uses it.
type scan struct {
	*read
	rng   mainstem.Range
	yield func(mainstem.Record, error) bool
	left  int // records until the limit; without a limit it begins at 0 and counts below 0
	it    *pebble.Iterator

	// body and lender refer to memory of the iterator, valid until it moves.
	body   format.Body
	lender format.Lender

	userKey []byte // of the current key, unescaped
	prefix  []byte // common prefix of its versions; a copy, since the iterator moves
	end     []byte // scratch
}

func (s *scan) run(ctx context.Context) error {
	lower, upper := s.bounds()
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	if err := s.drain(); err != nil {
		return err
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer it.Close()
	s.it = it
	if err := s.awaitPublished(ctx, s.op); err != nil {
		return err
	}
	if s.slots {
		return s.overSlots(ctx)
	}
	return s.overStreams(ctx)
}

// bounds returns the engine keys that bound the selected keys; upper is excluded. Escaping keeps
// the order even between a key and a prefix or bound that is not a key, so the bounds of the
// range become bounds of engine keys.
func (s *scan) bounds() (lower, upper []byte) {
	tag := byte(format.TagVersion)
	encode := format.AppendEscaped
	if s.slots {
		tag, encode = format.TagSlot, func(dst, k []byte) []byte { return append(dst, k...) }
	}
	at := func(k []byte) []byte { return encode(format.AppendHead(nil, tag, s.s.id), k) }
	lower = at(s.rng.Prefix)
	upper = format.AppendSuccessor(nil, lower)
	if start := at(s.rng.Start); bytes.Compare(start, lower) > 0 {
		lower = start
	}
	if s.rng.End != nil {
		if end := at(s.rng.End); bytes.Compare(end, upper) < 0 {
			upper = end
		}
	}
	return lower, upper
}

// emit yields s.body, which must be visible, as the record of userKey. It returns false when the
// scan is over.
func (s *scan) emit(userKey []byte) (bool, error) {
	b := &s.body
	if b.Tombstone != mainstem.Live && !s.rng.Tombstones {
		return true, nil
	}
	if b.Position > s.head() {
		if err := s.doubtful(s.op, b); err != nil {
			return false, err
		}
	}
	if s.rng.KeysOnly {
		b.Value = nil
		b.DropHeaders()
	}
	s.lender.Fill(userKey, b)
	if !lend(s.yield, &s.lender.Record) {
		return false, nil
	}
	s.left--
	return s.left != 0, nil
}

// decode decodes the record at the iterator into s.body.
func (s *scan) decode() error {
	val, err := s.it.ValueAndErr()
	if err != nil {
		return err
	}
	return s.body.Decode(val)
}

func (s *scan) first() bool {
	if s.rng.Reverse {
		return s.it.Last()
	}
	return s.it.First()
}

func (s *scan) next() bool {
	if s.rng.Reverse {
		return s.it.Prev()
	}
	return s.it.Next()
}

// overSlots visits the keys of a space with bounded history. The newest record of each is in its
// slot; older ones have another tag.
func (s *scan) overSlots(ctx context.Context) error {
	for ok := s.first(); ok; ok = s.next() {
		if err := s.step(ctx); err != nil {
			return err
		}
		key, err := format.SlotKey(s.it.Key())
		if err != nil {
			return err
		}
		if err := s.decode(); err != nil {
			return err
		}
		if !s.visible(&s.body) {
			continue
		}
		if more, err := s.emit(key); !more || err != nil {
			return err
		}
	}
	return s.it.Error()
}

// overStreams visits the keys of a space that keeps all history. For each key it finds the
// newest version and skips the others. Forward, the iterator arrives at the oldest version of a
// key and seeks back from the end of the key. Backward, it arrives at the newest one. So a key
// costs two seeks or one, regardless of the number of its versions.
func (s *scan) overStreams(ctx context.Context) error {
	for ok := s.first(); ok; {
		if err := s.step(ctx); err != nil {
			return err
		}
		prefix, _, err := format.SplitVersioned(s.it.Key())
		if err != nil {
			return err
		}
		s.prefix = append(s.prefix[:0], prefix...)
		if s.userKey, err = format.AppendUnescaped(s.userKey[:0], prefix); err != nil {
			return err
		}
		more, err := s.newestOfPrefix()
		if !more || err != nil {
			return err
		}
		if s.rng.Reverse {
			ok = s.it.SeekLT(s.prefix)
		} else {
			ok = s.it.SeekGE(s.prefixEnd())
		}
	}
	return s.it.Error()
}

// prefixEnd returns the upper bound of all versions under s.prefix.
func (s *scan) prefixEnd() []byte {
	s.end = format.AppendPrefixEnd(s.end[:0], s.prefix)
	return s.end
}

// newestOfPrefix yields the newest record under s.prefix. If that is a version marker or has
// expired, the key has no value: an older version does not reappear.
func (s *scan) newestOfPrefix() (bool, error) {
	if !s.rng.Reverse && !s.it.SeekLT(s.prefixEnd()) {
		return true, s.it.Error()
	}
	if err := s.decode(); err != nil || !s.visible(&s.body) {
		return err == nil, err
	}
	return s.emit(s.userKey)
}
