package pebblelog

import (
	"bytes"
	"context"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// A scan reads one range of Pebble's keys with one iterator, which is a view of one moment.
//
// Three steps, in this order, make that the log at one moment, not older than the call:
//
//  1. drain: Pebble gets all groups with changes of the space that readers could see.
//  2. NewIter: the view. It holds whole groups, in their order, since Pebble takes them so.
//     Groups that come to the hot tier after step 1 may be missing: they are concurrent.
//  3. awaitPublished: a group in the view may have its positions and totals published only
//     now. The gate was closed before Pebble got it, so it is seen closed here, or it has
//     opened again, and then they are published. Waiting before step 2 would not do: a group
//     could come between.
//
// After step 3 a record above the head can only be of a group whose publication failed. It is
// in the journal, and its outcome was reported as unknown, so the scan reports that as well
// (doubtful) rather than show it or leave it out.
//
// Keys come in the order of their bytes. Slots have the user's keys as they are. Version keys
// have them escaped, in a way that keeps the order and marks the end, so that all versions of a
// key stand together and no key's versions mix with those of a longer key.

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
	left  int // records until the limit; 0 at first: none, and then it counts below 0
	it    *pebble.Iterator

	// body and lender lend memory of the iterator: valid until it moves.
	body   format.Body
	lender format.Lender

	userKey []byte // of the key under way, unescaped
	prefix  []byte // that all versions of it have; a copy, since the iterator moves
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

// bounds returns the engine keys between which the selected keys lie. Escaping keeps the order,
// also between a key and a prefix or bound that is none, so the bounds of the range become
// bounds of engine keys; the upper one is excluded.
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

// emit yields s.body, which is visible, as the record of userKey; it returns false when the scan is over.
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

// decode reads the record under the iterator into s.body.
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

// overSlots visits the keys of a space with bounded history: the newest record of each is in
// its slot, and older ones have another tag.
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

// overStreams visits the keys of a space that keeps all history: for each it finds
// the newest version, then steps over the rest. Forward it arrives at the oldest version of a
// key and seeks back from its end. Backward it arrives at the newest one. So a key costs two
// seeks or one, however many versions it has.
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

// prefixEnd returns the bound above all versions under s.prefix.
func (s *scan) prefixEnd() []byte {
	s.end = format.AppendPrefixEnd(s.end[:0], s.prefix)
	return s.end
}

// newestOfPrefix yields the record of the newest version under s.prefix. If that is a version
// marker or has expired, the key has no value: an older version does not come back.
func (s *scan) newestOfPrefix() (bool, error) {
	if !s.rng.Reverse && !s.it.SeekLT(s.prefixEnd()) {
		return true, s.it.Error()
	}
	if err := s.decode(); err != nil || !s.visible(&s.body) {
		return err == nil, err
	}
	return s.emit(s.userKey)
}
