package eventtopic

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// MaxCategories is the number of categories of a store that [Catalog.All] lists. A store with
// more is listed without categories: the part of its streams' names before the first hyphen is
// probably no category but, for example, part of a UUID. A store is also listed without them
// if it has 1,024 or more categories and streams without a category together.
const MaxCategories = 256

// maxLooks bounds the reads to find the categories of a store: one for each category, and one
// for each stream without a category.
const maxLooks = 1024

// listing is the categories of a store at some state of its space.
type listing struct {
	created    time.Time         // of the space
	last       mainstem.Position // of the newest record in the space
	keys       int64             // in the space
	categories []string          // sorted; empty if there are too many
}

// current returns whether the space is in the state of the listing.
func (l *listing) current(info *mainstem.SpaceInfo) bool {
	return l.created.Equal(info.Created) && l.last == info.Last && l.keys == info.Keys
}

// categories returns the categories of the store that info describes, none if there
// are too many.
func (c *Catalog) categories(ctx context.Context, info mainstem.SpaceInfo) ([]string, error) {
	c.mu.Lock()
	known, ok := c.mu.listings[info.Name]
	c.mu.Unlock()
	if ok && known.current(&info) {
		return known.categories, nil
	}
	found, err := c.findCategories(ctx, info.Name)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.listings) >= maxHandles {
		clear(c.mu.listings)
	}
	c.mu.listings[info.Name] = listing{info.Created, info.Last, info.Keys, found}
	return found, nil
}

// findCategories reads the first stream of each category: from a stream of category c, it
// continues behind all names that begin with "c-". It returns none if there are too many.
// Unlike [event.Store.Categories], it includes a category whose streams are all deleted, so
// that its topic does not disappear while consumers read it.
func (c *Catalog) findCategories(ctx context.Context, space string) ([]string, error) {
	var found []string
	var start []byte
	for range maxLooks {
		stream, err := firstKey(ctx, c.log, space, mainstem.Range{Start: start})
		if err != nil || stream == "" {
			return found, err
		}
		category := event.ParseStreamID(stream).Category
		if category == "" {
			start = append([]byte(stream), 0)
			continue
		}
		if len(found) == MaxCategories {
			return nil, nil
		}
		found = append(found, strings.Clone(category))
		start = []byte(category + string('-'+1)) // the first name behind all of the category
	}
	return nil, nil
}

// firstKey returns the first key in r, also one with a tombstone; "" if there is none.
func firstKey(ctx context.Context, log mainstem.Log, space string, r mainstem.Range) (string, error) {
	r.Limit, r.KeysOnly, r.Tombstones = 1, true, true
	for rec, err := range log.Scan(ctx, space, r) {
		if errors.Is(err, mainstem.ErrNotFound) {
			break
		}
		return string(rec.Key), err
	}
	return "", nil
}
