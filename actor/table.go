package actor

import "sync"

// table finds the actors of a node by their numbers. A number consists of the index of a slot and
// of its generation: how often the slot was used before:
//
//	bits 0–31   slot, from 1
//	bits 32–63  generation
//
// A look-up hashes nothing, and the number of an actor that has ended does not become that of
// another before its slot was used 2^32 times. 0 is the number of no actor.
//
// Invariant: t.slot(i).c, if it is not nil, has the number made of i and t.slot(i).generation.
type table struct {
	mu    sync.RWMutex // guards the fields below
	pages []*page
	next  uint32   // the first slot that was never used
	free  []uint32 // slots below next that hold no actor
	n     int      // actors
}

// pageBits is the binary logarithm of the number of slots in a page.
const pageBits = 10

type page [1 << pageBits]tableSlot

// tableSlot holds an actor or nil, and the generation of that actor or of the next one.
type tableSlot struct {
	c          *core
	generation uint32
}

// slot returns slot i, counted from 0. The caller holds t.mu.
func (t *table) slot(i uint32) *tableSlot {
	return &t.pages[i>>pageBits][i&(1<<pageBits-1)]
}

// add gives c its number.
func (t *table) add(c *core) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var i uint32
	if k := len(t.free); k > 0 {
		i = t.free[k-1]
		t.free = t.free[:k-1]
	} else {
		i = t.next
		t.next++
		if int(i>>pageBits) == len(t.pages) {
			t.pages = append(t.pages, new(page))
		}
	}
	s := t.slot(i)
	s.c = c
	c.id = uint64(s.generation)<<32 | uint64(i+1)
	t.n++
}

// remove frees the slot of c. It does nothing if that was done before.
func (t *table) remove(c *core) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := uint32(c.id) - 1
	s := t.slot(i)
	if s.c != c {
		return
	}
	s.c = nil
	s.generation++
	t.free = append(t.free, i)
	t.n--
}

// find returns the actor with a number, nil if there is none.
func (t *table) find(id uint64) *core {
	t.mu.RLock()
	defer t.mu.RUnlock()
	i := uint32(id) - 1
	if i >= t.next {
		return nil
	}
	s := t.slot(i)
	if s.c == nil || s.c.id != id {
		return nil
	}
	return s.c
}

func (t *table) size() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.n
}
