package store

import (
	"bytes"
	"slices"

	"github.com/mainstemdev/mainstem/internal/format"
)

// Change is a change of one key of the cold tier. Value is nil and Delete true, or the key
// gets the value.
type Change struct {
	Key, Value []byte
	Delete     bool
}

// piece is a number of groups on their way to the cold tier, as one set of changes.
//
// Invariant: applied to the state before its groups, it gives the state that applying these one
// by one gives, key by key. A later group may be an edit that was computed from what the cold
// tier held, such as a feed block without one entry; after a crash it is replayed over what the
// groups themselves made. So feed blocks must not be joined, split or named anew here.
type piece struct {
	records []Change // of keys of records, which are never written twice, as their groups have them
	runs    []run    // of records whose keys ascend: those of one commit to one stream do
	others  []Change
	skipped int             // of others: they have no key
	at      map[string]int  // place in others, by key
	streams map[uint32]bool // spaces that keep all history: a feed block of theirs is written once
	sorted  []Change
}

// run is a part of the records of a piece.
type run struct{ from, to int }

// build makes the changes of groups, sorted by key, each key once.
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

// sortRecords appends the records to p.sorted. Runs usually do not overlap: then only they
// have to be sorted.
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

// reset empties p. It must not keep the arenas of tables that are gone.
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

// record adds a change of a record, to the run of the one before if it comes behind it.
func (p *piece) record(made Change) {
	n := len(p.records)
	p.records = append(p.records, made)
	if n > 0 && byKey(p.records[n-1], made) < 0 {
		p.runs[len(p.runs)-1].to++
		return
	}
	p.runs = append(p.runs, run{n, n + 1})
}

// Drain hands what is pending to write, in pieces of at least one group and of about
// pieceBytes, oldest first. Each piece is the changes of whole groups, sorted by key, each
// key once; the cold tier takes it wholly or not at all. The changes are valid until write
// returns. If write fails, so does Drain, and the piece stays pending. Several goroutines
// may call it: each returns when what was pending at its call is in the cold tier.
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

// next returns the oldest pending groups up to the one with the number until, and their size.
func (h *Hot) next(until uint64, pieceBytes int) (groups [][]byte, size int) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	n := 0
	for ; n < len(h.mu.pending) && h.mu.drained+uint64(n) < until && (n == 0 || size < pieceBytes); n++ {
		size += len(h.mu.pending[n])
	}
	return h.mu.pending[:n:n], size
}

// drop takes the oldest n groups off what is pending.
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
