package store

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// Filter is a Bloom filter that grows with its keys, up to a limit. It reports whether a key was
// certainly never added. Beyond the limit it reports nothing any more and takes no memory. One
// goroutine adds keys; many may call the other methods at the same time.
//
// It is a sequence of parts, each four times as large as the one before. A part is a table of
// blocks of 32 bytes. A key has one block, and two bits in each of its four words, so a look-up
// in a part reads one cache line.
type Filter struct {
	parts atomic.Pointer[filterParts] // replaced when the filter grows
	room  int                         // number of keys for which the last part has space
	limit int                         // largest size of a part, in bytes
}

// filterParts are the parts of a filter; nil: the filter is full. Keys are added to the last part
// only.
type filterParts []filterPart

type (
	filterPart  []filterBlock // the number of blocks is a power of two
	filterBlock [4]atomic.Uint64
)

const (
	filterBlockBytes = 32
	filterBlockKeys  = 24 // 10.7 bits for each key: about one false positive in a hundred
	filterBlocks     = 64 // number of blocks of the first part
	filterGrowth     = 4
)

// filterSalts are odd numbers that choose the bits of a key, one in each half of a word of its block.
var filterSalts = [8]uint32{0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31}

// NewFilter returns an empty filter whose parts have at most partBytes each. All parts together
// take a third more.
func NewFilter(partBytes int) *Filter {
	f := &Filter{limit: partBytes}
	f.parts.Store(&filterParts{})
	return f
}

// Add adds a key. Adding it again takes no space.
func (f *Filter) Add(key []byte) {
	hash := maphash.Bytes(seed, key)
	if f.has(hash) {
		return
	}
	if f.room == 0 && !f.grow() {
		f.parts.Store(nil)
		return
	}
	f.room--
	parts := *f.parts.Load()
	b := parts[len(parts)-1].block(hash)
	for i := range b {
		if word, bits := b[i].Load(), filterBits(hash, i); word&bits != bits {
			b[i].Store(word | bits)
		}
	}
}

// Full reports whether more keys were added than the limit allows, so that Has is always true.
func (f *Filter) Full() bool { return f.parts.Load() == nil }

// Has returns false only if key was certainly never added. After an Add of key has returned, it
// returns true.
func (f *Filter) Has(key []byte) bool { return f.has(maphash.Bytes(seed, key)) }

func (f *Filter) has(hash uint64) bool {
	parts := f.parts.Load()
	if parts == nil {
		return true
	}
	for i := len(*parts) - 1; i >= 0; i-- {
		if (*parts)[i].has(hash) {
			return true
		}
	}
	return false
}

// grow adds a part, and reports whether the limit allows it.
func (f *Filter) grow() bool {
	parts, n := *f.parts.Load(), filterBlocks
	if last := len(parts) - 1; last >= 0 {
		n = len(parts[last]) * filterGrowth
	}
	if n*filterBlockBytes > f.limit {
		return false
	}
	parts = append(parts[:len(parts):len(parts)], make(filterPart, n))
	f.parts.Store(&parts)
	f.room = n * filterBlockKeys
	return true
}

func (p filterPart) block(hash uint64) *filterBlock {
	return &p[hash>>(64-bits.TrailingZeros(uint(len(p))))]
}

func (p filterPart) has(hash uint64) bool {
	b := p.block(hash)
	for i := range b {
		if bits := filterBits(hash, i); b[i].Load()&bits != bits {
			return false
		}
	}
	return true
}

// filterBits returns the two bits of a key in a word of its block.
func filterBits(hash uint64, word int) uint64 {
	low, high := uint32(hash)*filterSalts[2*word]>>27, uint32(hash)*filterSalts[2*word+1]>>27
	return 1<<low | 1<<(high+32)
}
