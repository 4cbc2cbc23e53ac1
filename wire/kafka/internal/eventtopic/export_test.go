package eventtopic

import (
	"time"

	"github.com/mainstemdev/mainstem/topic"
)

// SetLinger changes how long followers go on, before anybody waits.
func (c *Catalog) SetLinger(d time.Duration) { c.linger = d }

// Followed returns how many stores somebody waits for, or did until just now.
func (c *Catalog) Followed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.hubs)
}

// IDOf is idOf.
func IDOf(store string, created time.Time, category string) topic.ID {
	return idOf(store, created, category)
}
