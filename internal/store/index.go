package store

import (
	"bytes"
	"hash/maphash"
)

// index maps keys to entries: a hash table with open addressing. Keys are in the arena, so
// neither keys nor records are objects for the garbage collector. Only a key with several records
// has an object, its list.
type index struct {
	slots   []slot // by hash; the length is a power of two
	entries []entry
	lists   [][]ref // records of the keys that have several, oldest first
	inLists int     // capacity of all lists, in refs
}

// entry has what the table knows of one key.
//
// Invariant: newest is 0, and the table has nothing of the key, or newest is its newest value,
// and the last of its list if it has one.
type entry struct {
	hash   uint32
	list   uint32 // number of its list plus 1; 0: at most one record
	key    ref
	newest ref
}

// slot has the hash of a key, and the number of its entry plus 1; 0 means free. Because of the
// hash, a search for a key that is not there reads only adjacent slots, and hardly any entries.
type slot uint64

func slotOf(hash, number uint32) slot { return slot(hash)<<32 | slot(number) }

const firstSlots = 16

// Sizes in memory, in bytes.
const (
	slotBytes  = 8
	refBytes   = 8
	entryBytes = 24
	listBytes  = 24 // not including its refs
	blockBytes = 16
)

var seed = maphash.MakeSeed()

func hashOf(key []byte) uint32 { return uint32(maphash.Bytes(seed, key)) }

// find returns the number of the entry of key, or -1.
func (x *index) find(chunks [][]byte, hash uint32, key []byte) int {
	if len(x.slots) == 0 {
		return -1
	}
	mask := uint32(len(x.slots) - 1)
	for i := hash & mask; x.slots[i] != 0; i = (i + 1) & mask {
		s := x.slots[i]
		if n := int(uint32(s)) - 1; uint32(s>>32) == hash && bytes.Equal(x.entries[n].key.in(chunks), key) {
			return n
		}
	}
	return -1
}

// insert adds an entry for the key at r, which must have none, and returns its number.
func (x *index) insert(hash uint32, r ref) int {
	if (len(x.entries)+1)*4 > len(x.slots)*3 {
		x.grow()
	}
	x.entries = append(x.entries, entry{hash: hash, key: r})
	x.place(uint32(len(x.entries)))
	return len(x.entries) - 1
}

func (x *index) grow() {
	x.slots = make([]slot, max(2*len(x.slots), firstSlots))
	for i := range x.entries {
		x.place(uint32(i + 1))
	}
}

// place puts the number of an entry into its slot.
func (x *index) place(number uint32) {
	mask := uint32(len(x.slots) - 1)
	hash := x.entries[number-1].hash
	i := hash & mask
	for x.slots[i] != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = slotOf(hash, number)
}

// extend makes r the newest record of e. Lists are only appended to, because readers hold parts
// of them.
func (x *index) extend(e *entry, r ref) {
	switch {
	case e.newest == 0:
	case e.list == 0:
		x.lists = append(x.lists, append(make([]ref, 0, 4), e.newest, r))
		x.inLists += 4
		e.list = uint32(len(x.lists))
	default:
		list := &x.lists[e.list-1]
		before := cap(*list)
		*list = append(*list, r)
		x.inLists += cap(*list) - before
	}
	e.newest = r
}

// forget empties the entry e.
func (x *index) forget(e *entry) {
	if e.list != 0 {
		x.lists[e.list-1] = nil
	}
	e.newest, e.list = 0, 0
}

// memory returns the approximate size of the index, in bytes.
func (x *index) memory() int {
	return cap(x.slots)*slotBytes + cap(x.entries)*entryBytes + cap(x.lists)*listBytes + x.inLists*refBytes
}
