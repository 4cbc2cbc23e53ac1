package actor

import "sync"

// table finds actors by their numbers. A number is the index of a slot and how
// often the slot was used before:
//
//	bits 0–31   slot, from 1
//	bits 32–63  generation
//
// So looking one up hashes nothing, and the number of an actor that is gone never
// names another until a slot was used four billion times.
type table struct {
	mu    sync.RWMutex
	pages []*page
	next  uint32   // slots used so far
	free  []uint32 // slots to use again
	n     int
}

const pageBits = 10

type page [1 << pageBits]tableSlot

// tableSlot holds an actor, or, while it is free, the generation of its next.
type tableSlot struct {
	c          *core
	generation uint32
}

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

// remove frees the number of c.
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

// find returns the actor with a number, nil if it is gone.
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
