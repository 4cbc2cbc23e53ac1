package event

import (
	"context"
	"iter"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// How events are read by their positions.
const (
	firstChunk = 16  // positions taken from the index before their events are read; doubles with each chunk
	lastChunk  = 512 // the largest chunk
	// nearby is how many positions may lie between two events that are read with one call of the
	// log: reading a few other records is cheaper than another call.
	nearby = 64
)

// indexScan reads the events at a sequence of positions from the index.
//
// Meanwhile the index may be built anew, and records may be removed before their replacements are
// written. So the positions of each chunk are used only if the control record is still the one with
// which the scan began: a build changes it before anything else.
type indexScan struct {
	direction
	*Store
	x     *index
	root  positions
	after mainstem.Position // everything up to here, in the direction, is done
	head  mainstem.Position // positions above are not read
	most  int               // number of positions that are needed; 0: all
}

// each calls do for the record of each event, until do returns false. The result is true if all are
// done. It is false without an error if do ended the scan, or if the index has changed: the scan is
// then done up to after.
func (c *indexScan) each(ctx context.Context, do func(*mainstem.Record) (bool, error)) (all bool, err error) {
	size := firstChunk
	if c.most > 0 {
		size = min(size, c.most)
	}
	for {
		chunk, err := c.chunk(ctx, size)
		if err != nil {
			return false, err
		}
		if same, err := c.same(ctx, c.x); err != nil || !same {
			return false, err
		}
		if more, err := c.events(ctx, chunk, do); err != nil || !more {
			return false, err
		}
		if len(chunk) < size {
			if !c.back {
				c.after = max(c.after, c.head)
			}
			return true, nil
		}
		c.after = chunk[len(chunk)-1]
		size = min(2*size, lastChunk)
	}
}

// chunk returns the next n positions, fewer if there are no more.
func (c *indexScan) chunk(ctx context.Context, n int) ([]mainstem.Position, error) {
	target, ok := c.after+1, true
	if c.back {
		if target = c.head; c.after > 0 && c.after <= c.head {
			target, ok = c.next(c.after)
		}
	}
	var chunk []mainstem.Position
	for ok && len(chunk) < n {
		p, found, err := c.root.seek(ctx, target)
		if err != nil {
			return nil, err
		}
		if !found || p > c.head {
			break
		}
		chunk = append(chunk, p)
		target, ok = c.next(p)
	}
	return chunk, nil
}

// same reports whether the control record is that of x. It compares positions, which do not repeat
// even if the store was dropped meanwhile.
func (s *Store) same(ctx context.Context, x *index) (bool, error) {
	rec, err := s.log.Get(ctx, s.spaces.tags, controlKey)
	if err != nil && !isNotFound(err) {
		return false, err
	}
	return err == nil && rec.Version == x.version && rec.Position == x.written, nil
}

// events calls do for the event at each of positions that still exists, until do returns false.
func (c *indexScan) events(ctx context.Context, positions []mainstem.Position, do func(*mainstem.Record) (bool, error)) (bool, error) {
	for len(positions) > 0 {
		n := 1
		for !c.back && n < len(positions) && positions[n]-positions[n-1] <= nearby {
			n++
		}
		if more, err := c.eventsAt(ctx, positions[:n], do); err != nil || !more {
			return false, err
		}
		positions = positions[n:]
	}
	return true, nil
}

// eventsAt reads the events at positions, which are ascending and close to each other.
func (s *Store) eventsAt(ctx context.Context, positions []mainstem.Position, do func(*mainstem.Record) (bool, error)) (bool, error) {
	first, last := positions[0], positions[len(positions)-1]
	filter := mainstem.Filter{Spaces: []string{s.spaces.events}, After: first - 1, Limit: int(last-first) + 1}
	for rec, err := range s.log.Feed(ctx, filter) {
		if err != nil {
			return false, err
		}
		for len(positions) > 0 && positions[0] < rec.Position {
			positions = positions[1:] // the event is gone
		}
		if len(positions) == 0 {
			break
		}
		if rec.Position != positions[0] {
			continue
		}
		if more, err := do(&rec); err != nil || !more {
			return false, err
		}
		if positions = positions[1:]; len(positions) == 0 {
			break
		}
	}
	return true, nil
}

// eventAt is eventsAt for one event.
func (s *Store) eventAt(ctx context.Context, p mainstem.Position, do func(*mainstem.Record) (bool, error)) (bool, error) {
	return s.eventsAt(ctx, []mainstem.Position{p}, do)
}

// records yields the records of the feed that sel selects by space and key, and perhaps others. If
// sel selects types and the store has an index, it reads the index up to the head that sel was
// opened with, and the feed after it.
func (s *Store) records(ctx context.Context, sel *selector, after mainstem.Position, follow bool) iter.Seq2[mainstem.Record, error] {
	if len(sel.types) == 0 || sel.deletions || after >= sel.head {
		return s.log.Feed(ctx, sel.filter(s, after, follow))
	}
	return func(yield func(mainstem.Record, error) bool) {
		ended := false
		done, err := s.recordsOfTypes(ctx, sel, after, func(rec *mainstem.Record) (bool, error) {
			ended = !yield(*rec, nil)
			return !ended, nil
		})
		if err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		if ended {
			return
		}
		for rec, err := range s.log.Feed(ctx, sel.filter(s, done, follow)) {
			if !yield(rec, err) {
				return
			}
		}
	}
}

// recordsOfTypes reads by the index, if it can, and returns the position up to which it did.
func (s *Store) recordsOfTypes(ctx context.Context, sel *selector, after mainstem.Position, do func(*mainstem.Record) (bool, error)) (mainstem.Position, error) {
	x, err := s.readIndex(ctx)
	if err != nil || !x.readable() {
		return after, err
	}
	item := Item{}
	for typ := range sel.types {
		item.Types = append(item.Types, typ)
	}
	accept := func(stream []byte) bool {
		return strings.HasPrefix(string(stream), sel.prefix) && (sel.streams == nil || sel.streams[string(stream)]) &&
			(sel.partitions <= 1 || partitionOf(stream, sel.partitions) == sel.partition)
	}
	root, err := s.plan(ctx, x, Query{item}, wanted{from: after + 1, accept: accept})
	if err != nil {
		return after, err
	}
	scan := &indexScan{Store: s, x: x, root: root, after: after, head: sel.head}
	_, err = scan.each(ctx, do)
	return scan.after, err
}
