package event

import (
	"bytes"
	"context"
	"iter"
	"time"

	"github.com/mainstemdev/mainstem"
)

// ListOptions select streams. Nil and the zero value select all streams that have events and are
// not archived, in the bytewise order of their names.
type ListOptions struct {
	Prefix   string // only names that start with it
	Category string // only streams of this category
	After    string // the cursor: only names after it in the order asked for, exclusive
	Reverse  bool   // from the last name to the first
	Limit    int    // at most this many; 0 means no limit
	Archived bool   // include archived streams
	Deleted  bool   // include streams that have only a tombstone
}

// StreamEntry is one stream of a list.
type StreamEntry struct {
	Stream   string
	Version  mainstem.Version  // newest version
	Position mainstem.Position // of its newest event or tombstone
	Updated  time.Time
	Archived bool
	Deleted  bool
}

// scan returns the range of keys that o selects, and false if it cannot contain any.
func (o *ListOptions) scan() (r mainstem.Range, some bool, err error) {
	if o.Limit < 0 {
		return r, false, mainstem.Errorf(mainstem.KindInvalid, "list streams", "Limit is %d: want 0 (none) or more", o.Limit)
	}
	if err := checkCategory("list streams", o.Category); err != nil {
		return r, false, err
	}
	prefix := []byte(o.Prefix)
	if o.Category != "" {
		category := []byte(o.Category + "-")
		switch {
		case bytes.HasPrefix(category, prefix):
			prefix = category
		case !bytes.HasPrefix(prefix, category):
			return r, false, nil
		}
	}
	r = mainstem.Range{Prefix: prefix, Reverse: o.Reverse, KeysOnly: true, Tombstones: o.Deleted}
	if o.After != "" {
		if o.Reverse {
			r.End = []byte(o.After)
		} else {
			r.Start = append([]byte(o.After), 0)
		}
	}
	return r, true, nil
}

// Streams yields the streams that o selects, as of one moment. To continue a list with a limit,
// pass the last name as [ListOptions.After].
func (s *Store) Streams(ctx context.Context, o *ListOptions) iter.Seq2[StreamEntry, error] {
	if o == nil {
		o = &ListOptions{}
	}
	return func(yield func(StreamEntry, error) bool) {
		r, some, err := o.scan()
		if err != nil {
			yield(StreamEntry{}, err)
			return
		}
		if !some {
			return
		}
		archived, stop, err := s.archivedIn(ctx, r)
		if err != nil {
			yield(StreamEntry{}, err)
			return
		}
		defer stop()
		n := 0
		for rec, err := range s.log.Scan(ctx, s.spaces.events, r) {
			if err != nil {
				if !isNotFound(err) {
					yield(StreamEntry{}, err)
				}
				return
			}
			e := StreamEntry{Stream: string(rec.Key), Version: rec.Version, Position: rec.Position, Updated: rec.Time, Deleted: !rec.Live()}
			if e.Archived, err = archived(rec.Key); err != nil {
				yield(StreamEntry{}, err)
				return
			}
			if e.Archived && !o.Archived {
				continue
			}
			if !yield(e, nil) {
				return
			}
			if n++; n == o.Limit {
				return
			}
		}
	}
}

// archivedIn returns a function that reports whether a stream is archived. Its calls must follow
// the order of r: it walks through the seals in parallel to the streams.
func (s *Store) archivedIn(ctx context.Context, r mainstem.Range) (archived func(key []byte) (bool, error), stop func(), err error) {
	sealed, err := s.everSealed(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !sealed {
		return func([]byte) (bool, error) { return false, nil }, func() {}, nil
	}
	r.KeysOnly, r.Tombstones = false, false
	next, stop := iter.Pull2(s.log.Scan(ctx, s.spaces.seals, r))
	rec, err, ok := next()
	return func(key []byte) (bool, error) {
		for ok && err == nil {
			order := bytes.Compare(rec.Key, key)
			if r.Reverse {
				order = -order
			}
			if order == 0 {
				seal, err := s.sealOf(&rec)
				return seal == Archived, err
			}
			if order > 0 {
				return false, nil
			}
			rec, err, ok = next()
		}
		return false, ignoreNotFound(err)
	}, stop, nil
}

// CountStreams returns how many streams [Store.Streams] would yield. It walks through their names;
// [Store.Stats] answers without a walk for the whole store.
func (s *Store) CountStreams(ctx context.Context, o *ListOptions) (int, error) {
	n := 0
	for _, err := range s.Streams(ctx, o) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// Categories yields the categories of the streams that have events, in order. It costs one read per
// category and one per stream without a category, however many streams a category has. A category
// all of whose streams are archived is included.
func (s *Store) Categories(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var start []byte
		for {
			name, err := s.firstStream(ctx, start)
			if err != nil {
				yield("", err)
				return
			}
			if name == "" {
				return
			}
			category := ParseStreamID(name).Category
			if category == "" {
				start = append([]byte(name), 0)
				continue
			}
			if !yield(category, nil) {
				return
			}
			start = []byte(category + string('-'+1)) // the first name after all of the category
		}
	}
}

// firstStream returns the first stream with events from start on, "" if there is none.
func (s *Store) firstStream(ctx context.Context, start []byte) (string, error) {
	for rec, err := range s.log.Scan(ctx, s.spaces.events, mainstem.Range{Start: start, Limit: 1, KeysOnly: true}) {
		if err != nil {
			return "", ignoreNotFound(err)
		}
		return string(rec.Key), nil
	}
	return "", nil
}
