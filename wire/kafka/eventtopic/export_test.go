package eventtopic

import (
	"time"

	"github.com/mainstemdev/mainstem/topic"
)

// SetLinger changes how long a follower runs after its last waiter. Call it before the first
// wait.
func (c *Catalog) SetLinger(d time.Duration) { c.followers.SetLinger(d) }

// Followed returns the number of stores with waiters, now or until just now.
func (c *Catalog) Followed() int {
	return c.followers.Len()
}

// IDOf is idOf.
func IDOf(store string, created time.Time, category string) topic.ID {
	return idOf(store, created, category)
}
