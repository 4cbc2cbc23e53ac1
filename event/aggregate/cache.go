package aggregate

import (
	"container/list"
	"sync"
)

// cache keeps states between calls. A state is in the cache or with one caller, never both:
// take removes it. limit 0 keeps nothing.
type cache[T any] struct {
	limit int

	mu    sync.Mutex
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

// put keeps v as the state of id, in place of one that another caller has put there meanwhile.
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
