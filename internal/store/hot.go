package store

import (
	"sync"
	"sync/atomic"

	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/invariants"
)

// Hot is the hot tier, which has the newest groups in memory. See the package comment.
type Hot struct {
	limit   int           // largest size of both tables together, in bytes
	pending atomic.Int64  // bytes of effects of pending groups
	left    atomic.Uint64 // how often keys were dropped that only the cold tier has now; changes under mu

	drain struct { // held while groups are written to the cold tier; locked before mu
		sync.Mutex
		piece piece
	}
	mu struct {
		sync.RWMutex
		young *table
		old   *table // nil at first
		// pending are the effects of the pending groups, oldest first. Invariant: each is in the
		// arena of one of the two tables, so that readers find it.
		pending [][]byte
		newest  uint64 // number of the newest group
		drained uint64 // number of the newest group in the cold tier
		spaces  spaces
		changes []change // scratch
	}
}

// NewHot returns an empty tier that holds about limit bytes, and at least a few groups.
func NewHot(limit int) *Hot {
	h := &Hot{limit: limit}
	h.mu.young, h.mu.spaces = newTable(), spaces{}
	return h
}

// Apply adds a group: a set of changes in the form of [format.Effects], of at most MaxGroup
// bytes, which it copies. The changes must be those of a group that only appends: sets of records
// with versions above all earlier ones of their keys, sets of slots, receipts, feed blocks and of
// keys that are not read through this tier; deletes of feed blocks that a slot has superseded,
// and of keys that are not read through this tier. After an error nothing was added. Only one
// goroutine may call Apply and Invalidate.
func (h *Hot) Apply(effects []byte) error {
	invariants.Check(len(effects) <= MaxGroup, "a group of %d bytes", len(effects))
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &h.mu
	if m.young.bytes() >= h.limit/2 && len(m.pending) <= m.young.groups {
		if m.old != nil {
			h.left.Add(1)
		}
		m.old, m.young = m.young, newTable()
	}
	chunk, offset := m.young.add(effects)
	var err error
	if m.changes, err = parse(m.changes[:0], chunk, offset, effects); err != nil {
		m.young.used = offset
		return err
	}
	m.newest++
	m.young.apply(m.changes, &m.spaces, m.newest)
	end := offset + len(effects)
	m.pending = append(m.pending, m.young.chunks[chunk][offset:end:end])
	h.pending.Add(int64(len(effects)))
	return nil
}

// Get returns the value of a slot or a receipt, or the body of the newest record under a prefix
// made by [format.AppendPrefix], if the tier has it. The value never changes and must not be
// modified.
func (h *Hot) Get(key []byte) (value []byte, ok bool) {
	hash := hashOf(key)
	h.mu.RLock()
	defer h.mu.RUnlock()
	value = h.getLocked(hash, key)
	return value, value != nil
}

func (h *Hot) getLocked(hash uint32, key []byte) []byte {
	for _, t := range [...]*table{h.mu.young, h.mu.old} {
		if e := t.lookup(hash, key); e != nil {
			return e.newest.in(t.chunks)
		}
	}
	return nil
}

// Left returns how often the tier has dropped keys that only the cold tier has since.
func (h *Hot) Left() uint64 { return h.left.Load() }

// GetMany is [Hot.Get] for many keys at one moment. appendKey appends the i-th key to dst;
// values[i] is nil if the tier does not have that key. If left is not the present value of
// [Hot.Left], GetMany returns false. If it returns true, a view of the cold tier that was opened
// after left was read shows the keys that the tier does not have as they are at this moment,
// unless groups have bypassed the tier. Nothing is added to the tier during the call.
func (h *Hot) GetMany(left uint64, values [][]byte, appendKey func(dst []byte, i int) []byte) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.left.Load() != left {
		return false
	}
	var stack [128]byte
	key := stack[:0]
	for i := range values {
		key = appendKey(key[:0], i)
		values[i] = h.getLocked(hashOf(key), key)
	}
	return true
}

// Records are the newest records of a key, oldest first, without gaps. They do not change.
type Records struct {
	old, young part
	before     int // number of records in old
}

// part has the records of a key in one table.
type part struct {
	chunks [][]byte
	one    ref
	refs   []ref // nil: at most one record
}

func (p *part) len() int {
	switch {
	case p.refs != nil:
		return len(p.refs)
	case p.one != 0:
		return 1
	}
	return 0
}

func (p *part) at(i int) []byte {
	if p.refs != nil {
		return p.refs[i].in(p.chunks)
	}
	return p.one.in(p.chunks)
}

// Len returns the number of records.
func (r *Records) Len() int { return r.before + r.young.len() }

// At returns the body of record i.
func (r *Records) At(i int) []byte {
	if i < r.before {
		return r.old.at(i)
	}
	return r.young.at(i - r.before)
}

// Records returns the records of the tier under a prefix made by [format.AppendPrefix].
func (h *Hot) Records(prefix []byte) (r Records) {
	hash := hashOf(prefix)
	h.mu.RLock()
	defer h.mu.RUnlock()
	h.mu.old.part(hash, prefix, &r.old)
	h.mu.young.part(hash, prefix, &r.young)
	r.before = r.old.len()
	return r
}

func (t *table) part(hash uint32, prefix []byte, p *part) {
	e := t.lookup(hash, prefix)
	if e == nil {
		return
	}
	p.chunks, p.one = t.chunks, e.newest
	if e.list != 0 {
		p.refs = t.lists[e.list-1]
	}
}

// Blocks are feed blocks of one space, in the order of their positions.
type Blocks struct {
	parts  [2][]block
	chunks [2][][]byte
}

// Len returns the number of blocks.
func (b *Blocks) Len() int { return len(b.parts[0]) + len(b.parts[1]) }

// At returns block i: the value of its key.
func (b *Blocks) At(i int) []byte {
	if n := len(b.parts[0]); i >= n {
		return b.parts[1][i-n].at.in(b.chunks[1])
	}
	return b.parts[0][i].at.in(b.chunks[0])
}

// Blocks returns the feed blocks that have all entries above position after, for a space that
// keeps all history. The first block may also have earlier entries. ok is false if the tier may
// not have all of them: then the cold tier must be read.
func (h *Hot) Blocks(space uint32, after uint64) (b Blocks, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	young, old := h.mu.young, h.mu.old
	b.chunks[1] = young.chunks
	if b.parts[1], ok = young.blocksAfter(space, after); ok {
		return b, true
	}
	if b.parts[0], ok = old.blocksAfter(space, after); ok {
		b.chunks[0] = old.chunks
		all := young.feeds[space]
		b.parts[1] = all[:len(all):len(all)]
	}
	return b, ok
}

// Invalidate drops all keys that effects change. The cold tier must have everything in this tier,
// and gets effects next. If effects delete ranges of keys, Invalidate drops everything.
func (h *Hot) Invalidate(effects []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	invariants.Check(len(h.mu.pending) == 0, "%d groups are not in the cold tier", len(h.mu.pending))
	h.left.Add(1)
	_, rest, err := format.Effects(effects)
	for err == nil && len(rest) > 0 {
		var c format.Change
		if c, rest, err = format.NextChange(rest); err == nil {
			h.invalidate(&c)
		}
	}
	return err
}

func (h *Hot) invalidate(c *format.Change) {
	if c.Kind == format.ChangeDeleteRange {
		h.reset()
		return
	}
	key := c.Key
	if len(key) == 0 {
		return
	}
	switch key[0] {
	case format.TagVersion:
		key = key[:format.PrefixLen(key)]
	case format.TagSlot, format.TagReceipt:
	case format.TagFeed:
		id, _ := format.KeySpace(key)
		delete(h.mu.young.feeds, id)
		if h.mu.old != nil {
			delete(h.mu.old.feeds, id)
		}
		return
	default:
		return
	}
	hash := hashOf(key)
	h.mu.young.drop(hash, key)
	h.mu.old.drop(hash, key)
}

// Reset drops everything. The cold tier must have it.
func (h *Hot) Reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	invariants.Check(len(h.mu.pending) == 0, "%d groups are not in the cold tier", len(h.mu.pending))
	h.reset()
}

func (h *Hot) reset() {
	h.left.Add(1)
	h.mu.young, h.mu.old = newTable(), nil
	clear(h.mu.spaces)
}

// Pending reports whether pending groups may have changes of a space.
func (h *Hot) Pending(space uint32) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	s := h.mu.spaces[space]
	return s != nil && s.touched > h.mu.drained
}

// PendingBytes returns the size of the pending groups, in bytes of effects.
func (h *Hot) PendingBytes() int { return int(h.pending.Load()) }

// Stats has the sizes of a tier.
type Stats struct {
	Bytes   int // memory
	Groups  int // pending groups
	Pending int // bytes of pending groups
}

// Stats returns the sizes of the tier.
func (h *Hot) Stats() Stats {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return Stats{Bytes: h.mu.young.bytes() + h.mu.old.bytes(), Groups: len(h.mu.pending), Pending: h.PendingBytes()}
}
