package natskv

import (
	"slices"
	"strings"
)

// item is what an index knows of one key.
type item struct {
	key     string // with the prefix of its table
	seq     uint64 // of its newest message
	time    int64  // unix nanoseconds, by the server's clock
	expires int64  // likewise; 0: never
	value   *cached
	live    bool
}

// maxBlock is how many items a block holds before it is split.
const maxBlock = 256

// sorted is a list of items in the order of their keys, in blocks, so that an
// insertion moves few of them, and reading in order goes through memory in order.
// Pointers to items are good until the next insertion or removal.
// Invariant: no block is empty.
type sorted struct {
	blocks [][]item
	n      int
}

// seek returns the place of the first item whose key is at least key, and whether it
// has that key. The place may be one after the last block.
func (s *sorted) seek(key string) (block, at int, found bool) {
	block, _ = slices.BinarySearchFunc(s.blocks, key, func(b []item, key string) int {
		return strings.Compare(b[len(b)-1].key, key)
	})
	if block == len(s.blocks) {
		return block, 0, false
	}
	at, found = slices.BinarySearchFunc(s.blocks[block], key, func(i item, key string) int {
		return strings.Compare(i.key, key)
	})
	return block, at, found
}

// get returns the item of key, or nil.
func (s *sorted) get(key string) *item {
	if block, at, found := s.seek(key); found {
		return &s.blocks[block][at]
	}
	return nil
}

// insert adds an item for a key that is not there.
func (s *sorted) insert(key string) *item {
	s.n++
	if len(s.blocks) == 0 {
		s.blocks = [][]item{{{key: key}}}
		return &s.blocks[0][0]
	}
	block, at, _ := s.seek(key)
	if block == len(s.blocks) {
		block--
		at = len(s.blocks[block])
	}
	b := slices.Insert(s.blocks[block], at, item{key: key})
	s.blocks[block] = b
	if len(b) <= maxBlock {
		return &b[at]
	}
	half := maxBlock / 2
	if block == len(s.blocks)-1 && at == maxBlock {
		half = maxBlock // keys that come in order leave full blocks behind
	}
	upper := append(make([]item, 0, maxBlock/2), b[half:]...)
	clear(b[half:])
	s.blocks[block] = b[:half]
	s.blocks = slices.Insert(s.blocks, block+1, upper)
	if at < half {
		return &b[at]
	}
	return &upper[at-half]
}

// remove takes the item of key out, if it is there.
func (s *sorted) remove(key string) {
	block, at, found := s.seek(key)
	if !found {
		return
	}
	s.n--
	if b := slices.Delete(s.blocks[block], at, at+1); len(b) > 0 {
		s.blocks[block] = b
		return
	}
	s.blocks = slices.Delete(s.blocks, block, block+1)
}

// up calls f for the items from key start on, until f is false.
func (s *sorted) up(start string, f func(*item) bool) {
	block, at, _ := s.seek(start)
	for ; block < len(s.blocks); block++ {
		for b := s.blocks[block]; at < len(b); at++ {
			if !f(&b[at]) {
				return
			}
		}
		at = 0
	}
}

// down calls f for the items below key end, from the last to the first, until f
// is false. With all, it begins at the last item.
func (s *sorted) down(end string, all bool, f func(*item) bool) {
	block, at := len(s.blocks), 0
	if !all {
		block, at, _ = s.seek(end)
	}
	for {
		if at == 0 {
			if block == 0 {
				return
			}
			block--
			at = len(s.blocks[block])
		}
		at--
		if !f(&s.blocks[block][at]) {
			return
		}
	}
}
