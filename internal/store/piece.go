package store

import (
	"bytes"
	"slices"

	"github.com/mainstemdev/mainstem/internal/format"
)

// feedBlockMax is the size, in bytes, up to which feed blocks are joined: a reader decodes
// from the start of a block.
const feedBlockMax = 64 << 10

// Change is a change of one key of the cold tier. Value is nil and Delete true, or the key
// gets the value.
type Change struct {
	Key, Value []byte
	Delete     bool
}

// piece is a number of groups on their way to the cold tier, as one set of changes.
type piece struct {
	changes []Change
	skipped int
	at      map[string]int // place in changes, by key, of keys that may be written again
	streams map[uint32]int // spaces that keep all history: place of their last feed block, -1: none
}

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
	slices.SortFunc(p.changes, func(a, b Change) int { return bytes.Compare(a.Key, b.Key) })
	return p.changes[p.skipped:], nil // those that are skipped have no key
}

func (p *piece) reset() {
	if p.at == nil {
		p.at, p.streams = map[string]int{}, map[uint32]int{}
	}
	clear(p.changes) // or it would keep the arenas of tables that are gone
	p.changes, p.skipped = p.changes[:0], 0
	clear(p.at)
	clear(p.streams)
}

func (p *piece) add(c *format.Change) {
	made := Change{Key: c.Key, Value: c.Operand, Delete: c.Kind == format.ChangeDelete}
	switch c.Key[0] {
	case format.TagVersion: // never written twice
		id, _ := format.KeySpace(c.Key)
		if _, ok := p.streams[id]; !ok {
			p.streams[id] = -1
		}
		p.changes = append(p.changes, made)
		return
	case format.TagFeed:
		id, _ := format.KeySpace(c.Key)
		if last, ok := p.streams[id]; ok && !made.Delete {
			p.feed(id, last, made)
			return
		}
	}
	i, again := p.at[string(c.Key)]
	switch {
	case !again:
		p.at[string(c.Key)] = len(p.changes)
		p.changes = append(p.changes, made)
	case c.Key[0] == format.TagFeed && made.Delete && !p.changes[i].Delete: // superseded before it was cold
		p.changes[i] = Change{}
		p.skipped++
		delete(p.at, string(c.Key))
	default:
		p.changes[i] = made
	}
}

// feed adds a block of a space that keeps all history to the one before if it can.
func (p *piece) feed(id uint32, last int, made Change) {
	if last >= 0 {
		if before := &p.changes[last]; len(before.Value)+len(made.Value) <= feedBlockMax {
			before.Value = append(before.Value, made.Value...) // the first time it is copied: it had no capacity
			return
		}
	}
	p.streams[id] = len(p.changes)
	p.changes = append(p.changes, made)
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
