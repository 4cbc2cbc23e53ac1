package topic

import "hash/maphash"

// offsetMap maps keys to their newest offsets in little memory: a hash table with linear probing,
// of slots of 24 bytes that hold 128 bits of hash in place of the key. With n keys, two of them
// have the same hash with a probability of about n²/2¹²⁹, and the later one then replaces the
// earlier. The seeds are random, so nobody can choose such keys.
//
// Invariant: at least a quarter of the slots, rounded down, is empty, and one always is: so a probe
// ends.
type offsetMap struct {
	seeds [2]maphash.Seed
	slots []offsetSlot
	used  int // slots that are not empty
}

type offsetSlot struct {
	hash   [2]uint64
	offset int64 // plus 1: 0 marks an empty slot
}

// slotBytes is the size of an offsetSlot. As slots are at most three quarters full, a key takes a
// third more.
const slotBytes = 24

// newOffsetMap returns a map that takes the given number of keys without growing.
func newOffsetMap(keys int) *offsetMap {
	return &offsetMap{
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		slots: make([]offsetSlot, max(4, keys+keys/3+1)),
	}
}

// full reports whether n more keys, if all are new, would make the map grow.
func (m *offsetMap) full(n int) bool { return m.used+n > len(m.slots)-len(m.slots)/4 }

// put sets the newest offset of key, which must be above the one before. A full map doubles its
// slots.
func (m *offsetMap) put(key []byte, offset int64) {
	if m.full(1) {
		m.grow()
	}
	h := m.hash(key)
	s := m.slot(h)
	if s.offset == 0 {
		m.used++
	}
	*s = offsetSlot{h, offset + 1}
}

// newest returns the newest offset of key, or -1.
func (m *offsetMap) newest(key []byte) int64 { return m.slot(m.hash(key)).offset - 1 }

func (m *offsetMap) hash(key []byte) [2]uint64 {
	return [2]uint64{maphash.Bytes(m.seeds[0], key), maphash.Bytes(m.seeds[1], key)}
}

// slot returns the slot of the key with hash h, or the empty slot for it.
func (m *offsetMap) slot(h [2]uint64) *offsetSlot {
	for i := h[0] % uint64(len(m.slots)); ; i = (i + 1) % uint64(len(m.slots)) {
		if s := &m.slots[i]; s.offset == 0 || s.hash == h {
			return s
		}
	}
}

func (m *offsetMap) grow() {
	old := m.slots
	m.slots = make([]offsetSlot, 2*len(old))
	for _, s := range old {
		if s.offset != 0 {
			*m.slot(s.hash) = s
		}
	}
}
