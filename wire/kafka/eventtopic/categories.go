package eventtopic

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// MaxCategories is how many categories of a store [Catalog.All] lists. A store with
// more lists none: what stands before the first hyphen of its streams is no category
// but, say, part of a UUID.
const MaxCategories = 256

// maxLooks bounds the looks into a store to find its categories: one for each, and one
// for each stream without a category.
const maxLooks = 1024

// listing is the categories that a store had when its space was in some state.
type listing struct {
	created    time.Time
	last       mainstem.Position
	keys       int64
	categories []string
}

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

// findCategories walks from the first stream of each category to that of the next.
// Unlike [event.Store.Categories] it counts a category whose streams are all deleted,
// so that its topic does not vanish under those who read it.
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
		start = []byte(category + string('-'+1)) // the first name after all of the category
	}
	return nil, nil
}

// firstKey returns the first key in r, a deleted one too, "" if there is none.
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
