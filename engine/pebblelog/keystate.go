package pebblelog

import (
	"hash/maphash"

	"github.com/mainstemdev/mainstem"
)

// keyState is the state of a key that the committer needs to write to it: its newest version, and
// whether that is a live value.
//
// Invariants:
//
//   - The zero state is that of a key that was never written, or of which no trace is left.
//   - position, clock, expires, size and tomb describe the newest record held; without held all of
//     them are zero.
//   - Without marker, the newest record held has the version of the key. With marker, the newest
//     record held, if any, has a lower version.
//   - clock and expires are rebased by the marks that were in force when the state was made. The
//     cache is cleared when marks change (tx.remark).
type keyState struct {
	version  uint64 // newest version ever given; 0: never written, or no trace is left
	position uint64 // of the newest record held; 0 if none is held
	written  uint64 // position of the newest record ever written, or a later one if only that is known; 0: never written
	clock    int64  // reading of the clock at the newest record held, unix ns
	expires  int64  // of the newest record held, unix ns; 0: never expires
	size     int64  // bytes of the newest record held, key included
	tomb     mainstem.Tombstone
	held     bool // at least one record is held
	marker   bool // the newest record was removed; a version marker keeps its version
}

// live reports whether the key has a value at m, in a space whose records live for maxAge ns (0:
// without end).
func (h *keyState) live(m *moment, maxAge int64) bool {
	return h.held && !h.marker && h.tomb == mainstem.Live && !m.Over(h.clock, h.expires, maxAge)
}

// keyStateCache has the states of the keys that were used most recently, by engine key. It has two
// generations: when the young one is full, it becomes the old one, and the old one is dropped. So
// memory is bounded and no entry needs a list node. Only the leader of the committer uses it.
//
// Invariants:
//
//   - An entry is the state of its key after all changes of the tx so far. Between groups it is
//     the state in the tiers: abandon clears the cache, since a tx changes states in place.
//   - Within a group only drop and clear remove entries. A plain tx cannot read its own writes
//     back, so the cache is the only source for keys that it has written.
//   - If a key is in both generations, the entry of the young one is newer. get looks there first.
//
// A state that a tx drops is read again, so only indexed txs, which read their own writes, may
// call drop. remark clears the cache at the beginning of a tx, before it has written records.
type keyStateCache struct {
	limit      int // entries at which young becomes old: half of Options.KeyStateCache
	young, old *keyStateTable
}

func newKeyStateCache(limit int) *keyStateCache {
	return &keyStateCache{limit: max(limit/2, 1), young: new(keyStateTable), old: new(keyStateTable)}
}

// get returns the state of key, or nil. The pointer is valid until the next rotate: entries do not
// move when others are added. An entry of the old generation is first copied to the young one. So
// states are changed in the young generation only, and keys in use survive the next rotate.
func (c *keyStateCache) get(key []byte) *keyState {
	hash := maphash.Bytes(keyStateSeed, key)
	if h := c.young.get(hash, key); h != nil {
		return h
	}
	h := c.old.get(hash, key)
	if h != nil {
		return c.young.add(hash, key, *h)
	}
	return nil
}

// put adds the state of key, which must not be in the cache.
func (c *keyStateCache) put(key []byte, h keyState) *keyState {
	return c.young.add(maphash.Bytes(keyStateSeed, key), key, h)
}

// drop removes key from both generations, so that get does not find an older state.
func (c *keyStateCache) drop(key []byte) {
	hash := maphash.Bytes(keyStateSeed, key)
	c.young.drop(hash, key)
	c.old.drop(hash, key)
}

// rotate drops the old generation if the young one is full. It is called between groups only:
// within a group, the states that the group has written are nowhere else.
func (c *keyStateCache) rotate() {
	if c.young.n >= c.limit {
		c.old, c.young = c.young, c.old
		if c.young.n > 2*c.limit { // a large group made it grow
			c.young = new(keyStateTable)
		}
		c.young.clear()
	}
}

func (c *keyStateCache) clear() {
	c.young.clear()
	c.old.clear()
}

// keyStateTable is a hash table with open addressing that keeps its memory when it is cleared.
// Neither keys nor states are objects for the garbage collector.
//
// Probing is linear: an entry is in the first slot that was free, counted from the slot of its
// hash, and a search ends at a free slot. So a slot must not become free again: a dropped entry is
// marked, keeps its slot, and is skipped. At most three quarters of the slots are taken.
type keyStateTable struct {
	slots  []uint64          // by hash: its upper half, and the number of the entry plus 1; 0: free. The length is a power of two
	chunks [][]keyStateEntry // of keyStateChunk entries each; kept by clear
	n      int               // entries in use, dropped ones included
	keys   []byte            // of all entries, concatenated; entries refer to it by offset
}

type keyStateEntry struct {
	hash    uint64
	key     int // offset of the key in keys
	length  int
	dropped bool
	state   keyState
}

// keyStateChunk is the number of entries of a chunk. Entries do not move when others are added.
const keyStateChunk = 64

// keptKeys is the capacity for keys, in bytes, that a table keeps at most when it is cleared.
const keptKeys = 4 << 20

var keyStateSeed = maphash.MakeSeed()

func (t *keyStateTable) entry(i int) *keyStateEntry {
	return &t.chunks[i/keyStateChunk][i%keyStateChunk]
}

// find returns the entry of key, or nil. The half of the hash in each slot avoids most comparisons
// with other keys.
func (t *keyStateTable) find(hash uint64, key []byte) *keyStateEntry {
	if t.n == 0 {
		return nil
	}
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; t.slots[i] != 0; i = (i + 1) & mask {
		if uint32(t.slots[i]>>32) != uint32(hash>>32) {
			continue
		}
		e := t.entry(int(uint32(t.slots[i])) - 1)
		if !e.dropped && string(t.keys[e.key:e.key+e.length]) == string(key) {
			return e
		}
	}
	return nil
}

func (t *keyStateTable) get(hash uint64, key []byte) *keyState {
	if e := t.find(hash, key); e != nil {
		return &e.state
	}
	return nil
}

// add adds an entry for key, which must have none.
func (t *keyStateTable) add(hash uint64, key []byte, h keyState) *keyState {
	if (t.n+1)*4 > len(t.slots)*3 {
		t.grow()
	}
	if t.n == len(t.chunks)*keyStateChunk {
		t.chunks = append(t.chunks, make([]keyStateEntry, keyStateChunk))
	}
	e := t.entry(t.n)
	*e = keyStateEntry{hash: hash, key: len(t.keys), length: len(key), state: h}
	t.keys = append(t.keys, key...)
	t.n++
	t.place(t.n)
	return &e.state
}

// grow doubles the number of slots. Entries do not move; their numbers are placed again.
func (t *keyStateTable) grow() {
	t.slots = make([]uint64, max(2*len(t.slots), keyStateChunk))
	for number := 1; number <= t.n; number++ {
		t.place(number)
	}
}

// place puts the number of an entry into its slot.
func (t *keyStateTable) place(number int) {
	mask := uint64(len(t.slots) - 1)
	hash := t.entry(number - 1).hash
	i := hash & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = hash>>32<<32 | uint64(number)
}

func (t *keyStateTable) drop(hash uint64, key []byte) {
	if e := t.find(hash, key); e != nil {
		e.dropped = true
	}
}

// clear removes all entries. It does not zero the chunks: add overwrites an entry completely.
func (t *keyStateTable) clear() {
	if t.n == 0 {
		return
	}
	clear(t.slots)
	t.n, t.keys = 0, t.keys[:0]
	if cap(t.keys) > keptKeys {
		t.keys = nil
	}
}
