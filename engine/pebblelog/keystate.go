package pebblelog

import (
	"github.com/mainstemdev/mainstem"
)

// keyState is what the committer must know of a key to write it: its newest version,
// and whether that is a live value.
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
type keyStateCache struct {
	limit      int
	young, old map[string]*keyState
	chunk      []keyState // keyStates are carved from chunks to spare allocations
}

const keyStateChunk = 64

func newKeyStateCache(limit int) *keyStateCache {
	return &keyStateCache{limit: max(limit/2, 1), young: map[string]*keyState{}, old: map[string]*keyState{}}
}

// get returns the head of key or nil. The pointer is valid until the next rotate.
func (c *keyStateCache) get(key []byte) *keyState {
	if h := c.young[string(key)]; h != nil {
		return h
	}
	h := c.old[string(key)]
	if h != nil {
		c.young[string(key)] = h
	}
	return h
}

func (c *keyStateCache) put(key []byte, h keyState) *keyState {
	if len(c.chunk) == 0 {
		c.chunk = make([]keyState, keyStateChunk)
	}
	p := &c.chunk[0]
	c.chunk = c.chunk[1:]
	*p = h
	c.young[string(key)] = p
	return p
}

func (c *keyStateCache) drop(key string) {
	delete(c.young, key)
	delete(c.old, key)
}

// rotate forgets the old generation if the young one is full. It is called
// between groups only: within a group the cache is the only place that knows the
// keyStates written so far.
func (c *keyStateCache) rotate() {
	if len(c.young) >= c.limit {
		c.old, c.young = c.young, make(map[string]*keyState, c.limit/4)
	}
}

func (c *keyStateCache) clear() {
	clear(c.young)
	clear(c.old)
}
