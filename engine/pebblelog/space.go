package pebblelog

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// space is an open space. Its number is never given to another space, so data of a dropped space
// cannot appear in a later space of the same name.
type space struct {
	id      uint32
	name    string
	created int64
	policy  atomic.Pointer[mainstem.Policy] // immutable: the leader replaces it
	last    atomic.Uint64                   // position of the newest record, committed and published

	mu struct {
		sync.Mutex
		totals format.Totals // as published; only the leader changes them, see tx.show
	}

	fresh bool // created since the log was opened: Log.written has all its keys

	// Only the leader of the committer uses these.
	staged *stagedSpace // nil unless the present tx has touched the space
	traces uint64       // no key that has left no trace was written after this position
	opened uint64       // position of the newest record when the log was opened; see written
}

// slots reports whether the space keeps the newest record of a key in a slot (bounded history)
// rather than one key for each version.
func slots(p *mainstem.Policy) bool { return p.History != 0 }

func newSpace(id uint32, name string, created int64, p mainstem.Policy) *space {
	s := &space{id: id, name: name, created: created}
	p.Metadata = maps.Clone(p.Metadata)
	s.policy.Store(&p)
	return s
}

func (s *space) totals() format.Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.totals
}

func (s *space) info() mainstem.SpaceInfo {
	t := s.totals()
	info := mainstem.SpaceInfo{
		Name: s.name, Policy: *s.policy.Load(), Created: time.Unix(0, s.created),
		Keys: t.Keys, Records: t.Records, Bytes: t.Bytes, Last: mainstem.Position(t.Last),
	}
	info.Policy.Metadata = maps.Clone(info.Policy.Metadata)
	if t.Updated != 0 {
		info.Updated = time.Unix(0, t.Updated)
	}
	return info
}

// registry is the set of spaces. It is immutable: the leader replaces it. A reader loads it once
// and sees the spaces of one moment. byName and names have the same spaces.
type registry struct {
	byName map[string]*space
	names  []string // sorted
}

func newRegistry(byName map[string]*space) *registry {
	return &registry{byName: byName, names: slices.Sorted(maps.Keys(byName))}
}

// with returns a copy of r with the spaces in add and without the one called drop.
func (r *registry) with(add []*space, drop string) *registry {
	m := maps.Clone(r.byName)
	delete(m, drop)
	for _, s := range add {
		m[s.name] = s
	}
	return newRegistry(m)
}

// find returns the space called name, or an error of kind NotFound.
func (l *Log) find(op, name string) (*space, error) {
	if s := l.spaces.Load().byName[name]; s != nil {
		return s, nil
	}
	if err := mainstem.ValidateSpaceName(name); err != nil {
		return nil, err
	}
	return nil, &mainstem.Error{Kind: mainstem.KindNotFound, Op: op, Space: name}
}

// CreateSpace implements [mainstem.SpaceManager].
func (l *Log) CreateSpace(ctx context.Context, name string, p mainstem.Policy) error {
	if err := mainstem.ValidateSpaceName(name); err != nil {
		return err
	}
	if err := p.Validate(); err != nil {
		return err
	}
	return l.exclusive(ctx, "create space", func(t *tx) error {
		if t.space(name) != nil {
			return &mainstem.Error{Kind: mainstem.KindExists, Op: "create space", Space: name, Outcome: mainstem.NotWritten}
		}
		t.create(name, p)
		return nil
	})
}

// AlterSpace implements [mainstem.SpaceManager]. Lowering a bounded History removes the records
// beyond it in the same commit, which takes time and memory in proportion to them.
func (l *Log) AlterSpace(ctx context.Context, name string, p mainstem.Policy) error {
	// finish puts the new policy in force, with the other changes of the tx. Until then the tx
	// and readers use the old one.
	return l.removal(ctx, "alter space", func(t *tx) error {
		ts := t.space(name)
		if ts == nil {
			return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "alter space", Space: name}
		}
		if err := ts.policy.CanAlter(p); err != nil {
			return err
		}
		p.Metadata = maps.Clone(p.Metadata)
		t.describe(ts.s, &p)
		if p.History < ts.policy.History {
			if err := t.trimSpace(ts, p.History); err != nil {
				return err
			}
		}
		t.onPublish(func() { ts.s.policy.Store(&p) })
		return nil
	})
}

// DropSpace implements [mainstem.SpaceManager].
func (l *Log) DropSpace(ctx context.Context, name string) error {
	return l.removal(ctx, "drop space", func(t *tx) error {
		ts := t.space(name)
		if ts == nil {
			return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "drop space", Space: name}
		}
		return t.drop(ts)
	})
}

// Space implements [mainstem.SpaceManager].
func (l *Log) Space(_ context.Context, name string) (mainstem.SpaceInfo, error) {
	if err := l.usable("space"); err != nil {
		return mainstem.SpaceInfo{}, err
	}
	s, err := l.find("space", name)
	if err != nil {
		return mainstem.SpaceInfo{}, err
	}
	return s.info(), nil
}

// Spaces implements [mainstem.SpaceManager].
func (l *Log) Spaces(ctx context.Context, prefix string) iter.Seq2[mainstem.SpaceInfo, error] {
	return func(yield func(mainstem.SpaceInfo, error) bool) {
		if err := l.usable("spaces"); err != nil {
			yield(mainstem.SpaceInfo{}, err)
			return
		}
		r := l.spaces.Load()
		i, _ := slices.BinarySearch(r.names, prefix)
		for _, name := range r.names[i:] {
			if !strings.HasPrefix(name, prefix) {
				return
			}
			if err := ctx.Err(); err != nil {
				yield(mainstem.SpaceInfo{}, mainstem.Ended(ctx, "spaces", time.Time{}, ""))
				return
			}
			if !yield(r.byName[name].info(), nil) {
				return
			}
		}
	}
}

// written returns the position of the newest record that was ever written to the key of h, or a
// later one if only that is known. For a key without a trace, ts.traces is such a bound. A
// version marker of an older program does not have the position; it was left before the log was
// opened, so opened is the bound.
func (ts *stagedSpace) written(h *keyState) uint64 {
	switch {
	case h.written != 0:
		return h.written
	case h.marker:
		return ts.s.opened
	}
	return ts.traces
}

// loadSpaces reads the registry, the totals and the counters at open, when Pebble has all
// frames.
//
// The newest position is the highest one in any totals, since every commit writes the totals of
// the spaces that it touches. But the totals of a dropped space are deleted, so a commit that
// drops a space also writes the counters of the log (seal). The next number of a space is found
// in the same way. So neither a position nor a number is given again after a crash.
func (l *Log) loadSpaces() error {
	byName := map[string]*space{}
	byID := map[uint32]*space{}
	next := uint32(1)
	err := l.walk(format.TagSpace, func(k, v []byte) error {
		d, err := format.DecodeSpace(v)
		if err != nil || byID[d.ID] != nil || d.Policy.Validate() != nil {
			return fmt.Errorf("description of space %q: %w", k[1:], format.ErrCorrupt)
		}
		s := newSpace(d.ID, string(k[1:]), d.Created, d.Policy)
		byName[s.name], byID[s.id] = s, s
		next = max(next, s.id+1)
		return nil
	})
	if err != nil {
		return err
	}
	var last uint64
	var newest, latest int64 // time of the newest record, and the reading of the clock then
	err = l.walk(format.TagTotals, func(k, v []byte) error {
		id, err := format.KeySpace(k)
		t, err2 := format.DecodeTotals(v)
		if err != nil || err2 != nil || byID[id] == nil {
			return fmt.Errorf("totals %x: %w", k, format.ErrCorrupt)
		}
		s := byID[id]
		s.mu.totals = t
		s.last.Store(t.Last)
		if s.opened = t.Last; t.Floor > 0 {
			s.traces = t.Last
		}
		if t.Last >= last {
			last, latest = t.Last, t.Clock
		}
		newest = max(newest, t.Updated)
		return nil
	})
	if err != nil {
		return err
	}
	v, closer, err := l.db.Get([]byte{format.TagLog})
	switch {
	case err == nil:
		c, derr := format.DecodeCounters(v)
		closer.Close()
		if derr != nil {
			return fmt.Errorf("counters: %w", derr)
		}
		if c.Last >= last {
			last, latest = c.Last, c.Clock
		}
		next, newest = max(next, c.NextSpace), max(newest, c.Time)
	case err != pebble.ErrNotFound:
		return err
	}
	l.spaces.Store(newRegistry(byName))
	l.position.Store(last)
	l.tx.next, l.tx.nextSpace, l.tx.last = last+1, next, newest
	l.newest.Store(newest)
	return l.loadClock(latest)
}

// walk calls f for every key with tag. It is used for small sets at open.
func (l *Log) walk(tag byte, f func(k, v []byte) error) error {
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tag}, UpperBound: []byte{tag + 1}})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err == nil {
			err = f(it.Key(), v)
		}
		if err != nil {
			it.Close()
			return err
		}
	}
	return it.Close()
}
