package eventtopic

import (
	"time"

	"github.com/mainstemdev/mainstem/topic"
)

// SetLinger changes how long followers go on, before anybody waits.
func (c *Catalog) SetLinger(d time.Duration) { c.followers.SetLinger(d) }

// Followed returns how many stores somebody waits for, or did until just now.
func (c *Catalog) Followed() int {
	return c.followers.Len()
}

// IDOf is idOf.
func IDOf(store string, created time.Time, category string) topic.ID {
	return idOf(store, created, category)
}
