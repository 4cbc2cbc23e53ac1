package store

import (
	"hash/maphash"
	"math/bits"
)

// Filter says of a key that it was certainly never added: a Bloom filter that grows with
// its keys, up to a limit. Beyond that it knows nothing any more and takes no memory.
// One goroutine uses it.
//
// It is a row of parts, each four times as large as the one before. A part is a table of
// blocks of 32 bytes, of which a key has one, with a bit in each of its eight words: a
// look-up in a part reads one line of memory.
type Filter struct {
	parts []filterPart // only the last one takes keys
	room  int          // keys that it still takes
	limit int          // bytes of a part
	full  bool
}

type (
	filterPart  []filterBlock // as many as a power of two
	filterBlock [8]uint32
)

const (
	filterBlockBytes = 32
	filterBlockKeys  = 24 // 10.7 bits for a key: about one in a hundred is taken for another
	filterBlocks     = 64 // of the first part
	filterGrowth     = 4
)

// filterSalts are odd numbers that choose the bits of a key, one in each word of its block.
var filterSalts = filterBlock{0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31}

// NewFilter returns an empty filter whose parts have at most partBytes each; all parts
// together have a third more.
func NewFilter(partBytes int) *Filter { return &Filter{limit: partBytes} }

// Add adds a key. One that the filter has already takes no room.
func (f *Filter) Add(key []byte) {
	hash := maphash.Bytes(seed, key)
	if f.full || f.has(hash) {
		return
	}
	if f.room == 0 && !f.grow() {
		f.parts, f.full = nil, true
		return
	}
	f.room--
	b := f.parts[len(f.parts)-1].block(hash)
	for i := range b {
		b[i] |= filterBit(hash, i)
	}
}

// Has returns false if key was certainly never added.
func (f *Filter) Has(key []byte) bool { return f.full || f.has(maphash.Bytes(seed, key)) }

func (f *Filter) has(hash uint64) bool {
	for i := len(f.parts) - 1; i >= 0; i-- {
		if f.parts[i].has(hash) {
			return true
		}
	}
	return false
}

// grow adds a part, and reports whether the limit allows for it.
func (f *Filter) grow() bool {
	n := filterBlocks
	if last := len(f.parts) - 1; last >= 0 {
		n = len(f.parts[last]) * filterGrowth
	}
	if n*filterBlockBytes > f.limit {
		return false
	}
	f.parts, f.room = append(f.parts, make(filterPart, n)), n*filterBlockKeys
	return true
}

func (p filterPart) block(hash uint64) *filterBlock {
	return &p[hash>>(64-bits.TrailingZeros(uint(len(p))))]
}

func (p filterPart) has(hash uint64) bool {
	b := p.block(hash)
	for i := range b {
		if b[i]&filterBit(hash, i) == 0 {
			return false
		}
	}
	return true
}

func filterBit(hash uint64, word int) uint32 {
	return 1 << (uint32(hash) * filterSalts[word] >> 27)
}
