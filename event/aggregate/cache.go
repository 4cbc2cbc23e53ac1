package aggregate

import (
	"container/list"
	"sync"
)

// cache is an LRU cache of states by ID. take removes a state and put returns it, so at any time a
// state is in the cache or with one caller, which may change it.
//
// Invariant: byID has exactly the elements of order, at most limit.
type cache[T any] struct {
	limit int // 0: nothing is kept; does not change after Open

	mu    sync.Mutex               // guards the fields below
	byID  map[string]*list.Element // to an *entry[T]
	order list.List                // least recently put first
}

type entry[T any] struct {
	id    string
	value T
}

// take removes the state of id from the cache and returns it.
func (c *cache[T]) take(id string) (T, bool) {
	var none T
	if c.limit == 0 {
		return none, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.byID[id]
	if el == nil {
		return none, false
	}
	delete(c.byID, id)
	return c.order.Remove(el).(*entry[T]).value, true
}

// put stores v as the state of id. It replaces a state that another caller has put meanwhile, which
// may be newer: a stale state is detected when it is saved.
func (c *cache[T]) put(id string, v T) {
	if c.limit == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = make(map[string]*list.Element)
	}
	if el := c.byID[id]; el != nil {
		c.order.Remove(el)
	}
	c.byID[id] = c.order.PushBack(&entry[T]{id, v})
	for c.order.Len() > c.limit {
		delete(c.byID, c.order.Remove(c.order.Front()).(*entry[T]).id)
	}
}
