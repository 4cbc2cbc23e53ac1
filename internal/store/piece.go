package store

import (
	"bytes"
	"slices"

	"github.com/mainstemdev/mainstem/internal/format"
)

// Change is a change of one key of the cold tier: a set of Value, or a delete if Delete is true,
// with a nil Value.
type Change struct {
	Key, Value []byte
	Delete     bool
}

// piece merges the changes of some groups, for the cold tier, into one set.
//
// Invariant: applied to the state before the groups, the set gives the same state as the groups
// one by one, key by key. A later group may be an edit that was computed from the cold tier, such
// as a feed block without one entry. After a crash the edit is replayed on the state that the
// groups themselves give. So feed blocks must not be joined, split or renamed here.
type piece struct {
	records []Change // of keys of records, which are written only once, in the order of the groups
	runs    []run    // of records with ascending keys, such as those of one commit to one stream
	others  []Change
	skipped int             // number of skipped changes in others, which have no key
	at      map[string]int  // index in others, by key
	streams map[uint32]bool // spaces that keep all history, whose feed blocks are written only once
	sorted  []Change
}

// run is a range of the records of a piece.
type run struct{ from, to int }

// build returns the changes of groups, sorted by key, each key once.
func (p *piece) build(groups [][]byte) ([]Change, error) {
	p.reset()
	for _, g := range groups {
		_, rest, err := format.Effects(g)
		for err == nil && len(rest) > 0 {
			var c format.Change
			if c, rest, err = format.NextChange(rest); err == nil {
				p.add(&c)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(p.others, byKey)
	others := p.others[p.skipped:]
	n, _ := slices.BinarySearchFunc(others, byte(format.TagVersion), func(c Change, tag byte) int { return int(c.Key[0]) - int(tag) })
	p.sorted = append(p.sorted, others[:n]...)
	p.sortRecords()
	p.sorted = append(p.sorted, others[n:]...)
	return p.sorted, nil
}

func byKey(a, b Change) int { return bytes.Compare(a.Key, b.Key) }

// sortRecords appends the records to p.sorted. If the runs do not overlap, which is usual, it
// sorts only the runs.
func (p *piece) sortRecords() {
	slices.SortFunc(p.runs, func(a, b run) int { return byKey(p.records[a.from], p.records[b.from]) })
	start := len(p.sorted)
	overlap := false
	for _, r := range p.runs {
		if n := len(p.sorted); n > start {
			overlap = overlap || byKey(p.sorted[n-1], p.records[r.from]) > 0
		}
		p.sorted = append(p.sorted, p.records[r.from:r.to]...)
	}
	if overlap {
		slices.SortFunc(p.sorted[start:], byKey)
	}
}

// reset empties p, so that it does not keep the arenas of dropped tables in memory.
func (p *piece) reset() {
	if p.at == nil {
		p.at, p.streams = map[string]int{}, map[uint32]bool{}
	}
	for _, changes := range []*[]Change{&p.records, &p.others, &p.sorted} {
		clear(*changes)
		*changes = (*changes)[:0]
	}
	p.runs, p.skipped = p.runs[:0], 0
	clear(p.at)
	clear(p.streams)
}

func (p *piece) add(c *format.Change) {
	made := Change{Key: c.Key, Value: c.Operand, Delete: c.Kind == format.ChangeDelete}
	switch c.Key[0] {
	case format.TagVersion:
		id, _ := format.KeySpace(c.Key)
		p.streams[id] = true
		p.record(made)
		return
	case format.TagFeed:
		if id, _ := format.KeySpace(c.Key); p.streams[id] && !made.Delete {
			p.others = append(p.others, made)
			return
		}
	}
	i, again := p.at[string(c.Key)]
	switch {
	case !again:
		p.at[string(c.Key)] = len(p.others)
		p.others = append(p.others, made)
	case c.Key[0] == format.TagFeed && made.Delete && !p.others[i].Delete: // superseded before it was cold
		p.others[i] = Change{}
		p.skipped++
		delete(p.at, string(c.Key))
	default:
		p.others[i] = made
	}
}

// record adds a change of a record. It extends the last run if the key is above the one before.
func (p *piece) record(made Change) {
	n := len(p.records)
	p.records = append(p.records, made)
	if n > 0 && byKey(p.records[n-1], made) < 0 {
		p.runs[len(p.runs)-1].to++
		return
	}
	p.runs = append(p.runs, run{n, n + 1})
}

// Drain calls write with the pending groups, oldest first, in pieces of at least one group and of
// about pieceBytes. Each piece has the changes of whole groups, sorted by key, each key once.
// write must apply it completely or not at all. The changes are valid until write returns. If
// write fails, so does Drain, and the piece stays pending. Many goroutines may call Drain: each
// call returns when all groups that were pending at its beginning are in the cold tier.
func (h *Hot) Drain(pieceBytes int, write func([]Change) error) error {
	h.mu.RLock()
	until, drained := h.mu.newest, h.mu.drained
	h.mu.RUnlock()
	if drained == until {
		return nil
	}
	h.drain.Lock()
	defer h.drain.Unlock()
	for {
		groups, size := h.next(until, pieceBytes)
		if len(groups) == 0 {
			return nil
		}
		changes, err := h.drain.piece.build(groups)
		if err == nil {
			err = write(changes)
		}
		h.drain.piece.reset()
		if err != nil {
			return err
		}
		h.drop(len(groups), size)
	}
}

// next returns the oldest pending groups, up to the group with the number until, and their size.
func (h *Hot) next(until uint64, pieceBytes int) (groups [][]byte, size int) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	n := 0
	for ; n < len(h.mu.pending) && h.mu.drained+uint64(n) < until && (n == 0 || size < pieceBytes); n++ {
		size += len(h.mu.pending[n])
	}
	return h.mu.pending[:n:n], size
}

// drop removes the oldest n groups from pending.
func (h *Hot) drop(n, size int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.mu.pending[:n])
	h.mu.pending = h.mu.pending[n:]
	if len(h.mu.pending) == 0 {
		h.mu.pending = nil
	}
	h.pending.Add(-int64(size))
	h.mu.drained += uint64(n)
}
