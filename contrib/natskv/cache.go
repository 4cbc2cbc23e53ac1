package natskv

import "sync/atomic"

// cache bounds the values that the items of an index keep. It drops one that was
// not asked for since it last came by (the CLOCK algorithm). Its owner's lock
// guards it; a hit needs no more than the reading half of that lock.
type cache struct {
	limit int64
	bytes int64
	ring  []*cached
	hand  int
}

// cached is a value that an item keeps. Invariant: message is nil if and only if
// the cache has dropped it.
type cached struct {
	message *message
	slot    int         // in the ring
	used    atomic.Bool // since the cache last came by
}

// itemOverhead is what a cached value takes besides its bytes, about.
const itemOverhead = 256

func cost(m *message) int64 { return int64(len(m.data)) + itemOverhead }

// put keeps m, if it fits at all; else it returns nil.
func (c *cache) put(m *message) *cached {
	n := cost(m)
	if n > c.limit {
		return nil
	}
	for c.bytes+n > c.limit {
		c.evict()
	}
	v := &cached{message: m, slot: len(c.ring)}
	c.ring = append(c.ring, v)
	c.bytes += n
	return v
}

// evict drops one value. There must be one.
func (c *cache) evict() {
	for {
		if c.hand >= len(c.ring) {
			c.hand = 0
		}
		if v := c.ring[c.hand]; !v.used.Swap(false) {
			c.drop(v)
			return
		}
		c.hand++
	}
}

// drop forgets v, which may be nil or dropped already.
func (c *cache) drop(v *cached) {
	if v == nil || v.message == nil {
		return
	}
	c.bytes -= cost(v.message)
	n := len(c.ring) - 1
	c.ring[v.slot] = c.ring[n]
	c.ring[v.slot].slot = v.slot
	c.ring[n] = nil
	c.ring = c.ring[:n]
	v.message = nil
}
