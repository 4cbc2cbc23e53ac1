package topic

import "hash/maphash"

// offsetMap remembers the newest offset of each key in fixed memory: a table of
// 24-byte slots that hold 128 bits of hash instead of the key. Two keys are taken
// for one with a probability of about n²/2¹²⁹ for n keys; the seeds are random, so
// nobody can choose such keys.
type offsetMap struct {
	seeds [2]maphash.Seed
	slots []offsetSlot
	used  int
}

type offsetSlot struct {
	hash   [2]uint64
	offset int64 // plus 1: 0 marks an empty slot
}

const slotBytes = 24

// newOffsetMap returns a map for the given number of keys.
func newOffsetMap(keys int) *offsetMap {
	return &offsetMap{
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		slots: make([]offsetSlot, max(4, keys+keys/3+1)), // at most three quarters full
	}
}

// full reports whether n more keys might not fit.
func (m *offsetMap) full(n int) bool { return m.used+n > len(m.slots)-len(m.slots)/4 }

// put remembers offset as the newest of key. A full map grows.
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

// slot returns the slot of the key with hash h, or the empty one where it belongs.
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
