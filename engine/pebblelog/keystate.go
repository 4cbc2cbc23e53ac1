package pebblelog

import (
	"hash/maphash"

	"github.com/mainstemdev/mainstem"
)

// keyState is what the committer must know of a key to write it: its newest version,
// and whether that is a live value.
//
// Invariants:
//
//   - The zero state is that of a key that was never written, or of which no trace is left.
//   - position, clock, expires, size and tomb describe the newest record held; all are zero
//     unless held.
//   - Unless marker, the newest record held has the version of the key. With it, that record, if
//     any, is an older one.
//   - clock and expires are rebased by the marks that were in force when the state was made.
//     The cache is cleared when marks change (tx.remark).
type keyState struct {
	version  uint64 // newest version ever given; 0: never written, or forgotten
	position uint64 // of the newest record held; 0 if none is held
	written  uint64 // position of the newest record ever, or a later one if only that is known; 0: never written
	clock    int64  // reading of the clock at the newest record held, unix ns
	expires  int64  // of the newest record held, unix ns; 0: never
	size     int64  // bytes of the newest record held, key included
	tomb     mainstem.Tombstone
	held     bool // at least one record is held
	marker   bool // the newest record was removed; a version marker remembers its version
}

// live reports whether the key has a value at m in a space whose records live for
// maxAge ns (0: without end).
func (h *keyState) live(m *moment, maxAge int64) bool {
	return h.held && !h.marker && h.tomb == mainstem.Live && !m.Over(h.clock, h.expires, maxAge)
}

// keyStateCache remembers the states of the keys written or asked for lately, by
// their engine key. It has two generations: when the young one is full it becomes
// the old one, so memory is bounded and no entry needs a list node. Only the
// leader of the committer touches it.
//
// Invariants:
//
//   - An entry is the state of its key after everything that the tx has done so far. Between
//     groups that is what the tiers have: abandon clears the cache, since a tx that is thrown
//     away has changed states in place.
//   - Within a group no entry goes away but by drop and clear. A plain tx cannot read its own
//     writes back, so what it has written to a key is known from here only.
//   - A key that is in both generations is newer in the young one, which is asked first.
//
// A tx that drops a state reads it anew, so drop is for indexed txs, which find their own writes.
// remark clears the cache at the beginning of a tx, before it has written records.
type keyStateCache struct {
	limit      int // entries of young at which it becomes old, half of Options.KeyStateCache
	young, old *keyStateTable
}

func newKeyStateCache(limit int) *keyStateCache {
	return &keyStateCache{limit: max(limit/2, 1), young: new(keyStateTable), old: new(keyStateTable)}
}

// get returns the head of key or nil. The pointer is valid until the next rotate: entries do not
// move when others are added. An entry of the old generation is copied to the young one, so
// a state is only ever changed there, and keys in use survive the next rotate.
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

// put adds the head of key, which the cache does not have.
func (c *keyStateCache) put(key []byte, h keyState) *keyState {
	return c.young.add(maphash.Bytes(keyStateSeed, key), key, h)
}

// drop removes key from both generations: an older state of it must not come back.
func (c *keyStateCache) drop(key []byte) {
	hash := maphash.Bytes(keyStateSeed, key)
	c.young.drop(hash, key)
	c.old.drop(hash, key)
}

// rotate forgets the old generation if the young one is full. It is called
// between groups only: within a group the cache is the only place that knows the
// keyStates written so far.
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

// keyStateTable is a hash table with open addressing that keeps its memory when it is
// cleared: neither keys nor states are objects for the garbage collector.
//
// Probing is linear: an entry is in the first free slot from that of its hash on, and a search
// ends at a free slot. So a slot never becomes free again: a dropped entry is marked, keeps
// its slot, and is passed over. At most three quarters of the slots are taken.
type keyStateTable struct {
	slots  []uint64          // by hash: the upper half of it, and the number of an entry and 1; 0 is free. A power of two
	chunks [][]keyStateEntry // of keyStateChunk entries each; kept by clear
	n      int               // entries in use, dropped ones included
	keys   []byte            // of all entries, one behind the other; entries refer to it by offset
}

type keyStateEntry struct {
	hash    uint64
	key     int // where it begins in keys
	length  int
	dropped bool
	state   keyState
}

// keyStateChunk is how many entries a chunk has. They do not move when others are added.
const keyStateChunk = 64

// keptKeys is how many bytes of keys a table keeps room for when it is cleared.
const keptKeys = 4 << 20

var keyStateSeed = maphash.MakeSeed()

func (t *keyStateTable) entry(i int) *keyStateEntry {
	return &t.chunks[i/keyStateChunk][i%keyStateChunk]
}

// find returns the entry of key, nil if there is none. The half of the hash in the slot spares
// most looks at entries of other keys.
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

// add adds an entry for key, which has none.
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

// grow doubles the slots. Entries stay where they are; their numbers get slots anew.
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

// clear removes all entries. Chunks are not emptied: an entry is written whole when it is added.
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
