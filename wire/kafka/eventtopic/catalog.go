package eventtopic

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/feedtopic"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// maxHandles bounds the topics and the listings of stores that a catalog caches. When there
// are as many, all are dropped, and looked up again when they are used.
const maxHandles = 10_000

// Options configures [Open]. nil and zero fields mean the defaults.
type Options struct {
	// Logger receives the errors of followers, which try again. Default: discards.
	Logger *slog.Logger
}

// Catalog is the event topics of a log. It is a [partition.Source]. Its methods may be called
// from many goroutines.
type Catalog struct {
	log       mainstem.Log
	followers *feedtopic.Followers

	mu struct {
		sync.Mutex
		topics   map[string]*stored   // cache, by name: topics that exist or have existed
		ids      map[topic.ID]*stored // Invariant: the same topics
		listings map[string]listing   // cache of categories, by space
	}
}

// Open returns the event topics of log, which stays the caller's. It reads nothing.
func Open(log mainstem.Log, o *Options) *Catalog {
	if o == nil {
		o = &Options{}
	}
	c := &Catalog{log: log, followers: feedtopic.OpenFollowers(log, o.Logger)}
	c.mu.topics = map[string]*stored{}
	c.mu.ids = map[topic.ID]*stored{}
	c.mu.listings = map[string]listing{}
	return c
}

// Close ends all waits and the goroutines of the catalog. The error is always nil. Closing
// twice is allowed.
func (c *Catalog) Close() error {
	c.followers.Close()
	return nil
}

// Of implements [partition.Source].
func (*Catalog) Of() string { return "event stores" }

// Reserved implements [partition.Source]: every name that begins with [Prefix] is reserved,
// because its store may be created later.
func (*Catalog) Reserved(name string) bool { return strings.HasPrefix(name, Prefix) && name != Prefix }

// Topic returns the event topic called name: NotFound if there is none. Of several readings of
// a name, the store with the longest name that exists counts.
func (c *Catalog) Topic(ctx context.Context, name string) (partition.Shown, error) {
	for store, category := range readings(name) {
		t, err := c.find(ctx, store, category)
		if err == nil {
			return t, nil
		}
		if !errors.Is(err, mainstem.ErrNotFound) {
			return nil, err
		}
	}
	return nil, mainstem.Errorf(mainstem.KindNotFound, "event topic", "no event store or category is shown as %q", name)
}

// find returns the topic of a store, or of one of its categories: NotFound if the store does
// not exist, or never had a stream of the category.
func (c *Catalog) find(ctx context.Context, store, category string) (*stored, error) {
	info, err := c.log.Space(ctx, spacePrefix+store)
	if err != nil {
		return nil, err
	}
	t, known, err := c.handle(info, store, category)
	if err != nil || known || category == "" {
		return t, err
	}
	some, err := t.anyStream(ctx)
	if err != nil {
		return nil, err
	}
	if !some {
		return nil, mainstem.Errorf(mainstem.KindNotFound, "event topic", "event store %q has no category %q", store, category)
	}
	return c.keep(t), nil
}

// handle returns the topic of a store, which info describes, or of one of its categories. known
// means that it was cached: so the category exists. A new topic of a category is not cached,
// because the caller must first find out whether the category exists.
func (c *Catalog) handle(info mainstem.SpaceInfo, store, category string) (t *stored, known bool, err error) {
	id := idOf(store, info.Created, category)
	c.mu.Lock()
	t = c.mu.topics[nameOf(store, category)]
	c.mu.Unlock()
	if t != nil && t.ID() == id {
		return t, true, nil
	}
	st, err := event.Open(c.log, store, nil)
	if err != nil {
		return nil, false, err
	}
	t = newTopic(c, st, category, id)
	if category == "" {
		t = c.keep(t)
	}
	return t, false, nil
}

// keep caches t and returns it, or the cached topic with the same name and ID.
func (c *Catalog) keep(t *stored) *stored {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.mu.topics[t.Name()]
	if old != nil && old.ID() == t.ID() {
		return old
	}
	if len(c.mu.topics) >= maxHandles {
		clear(c.mu.topics)
		clear(c.mu.ids)
	}
	if old != nil {
		delete(c.mu.ids, old.ID())
	}
	c.mu.topics[t.Name()] = t
	c.mu.ids[t.ID()] = t
	return t
}

// ByID returns the event topic with the given ID: NotFound if there is none. An ID does not
// contain the name, so ByID lists all topics unless the topic is cached. A category that All
// does not list is found only while it is cached, after a call of Topic.
func (c *Catalog) ByID(ctx context.Context, id topic.ID) (partition.Shown, error) {
	if !feedtopic.IsID(id) {
		return nil, noSuchID(id)
	}
	c.mu.Lock()
	t := c.mu.ids[id]
	c.mu.Unlock()
	if t != nil {
		now, err := c.Topic(ctx, t.Name())
		if err == nil && now.ID() != id {
			return nil, noSuchID(id)
		}
		return now, err
	}
	all, err := c.All(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.ID() == id {
			return t, nil
		}
	}
	return nil, noSuchID(id)
}

// All returns the event topics in the order of their names, except the categories of
// stores that have too many, see [MaxCategories]. It lists the spaces of the log; only stores
// that were written since the last call are read.
func (c *Catalog) All(ctx context.Context) ([]partition.Shown, error) {
	var infos []mainstem.SpaceInfo
	for info, err := range c.log.Spaces(ctx, spacePrefix) {
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	// A name with several readings belongs to the store with the longest name, as in Topic.
	slices.SortFunc(infos, func(a, b mainstem.SpaceInfo) int { return cmp.Compare(len(b.Name), len(a.Name)) })
	named := map[string]*stored{}
	for _, info := range infos {
		if err := c.list(named, info, ""); err != nil {
			return nil, err
		}
	}
	for _, info := range infos {
		categories, err := c.categories(ctx, info)
		if err != nil {
			return nil, err
		}
		for _, category := range categories {
			if err := c.list(named, info, category); err != nil {
				return nil, err
			}
		}
	}
	out := make([]partition.Shown, 0, len(named))
	for _, t := range named {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b partition.Shown) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

// list adds the topic of a store or category to named, unless its name is taken already or no
// topic can have it.
func (c *Catalog) list(named map[string]*stored, info mainstem.SpaceInfo, category string) error {
	store := strings.TrimPrefix(info.Name, spacePrefix)
	name := nameOf(store, category)
	if store == "" || topic.ValidateName(name) != nil || named[name] != nil {
		return nil
	}
	t, _, err := c.handle(info, store, category)
	if errors.Is(err, mainstem.ErrInvalid) {
		return nil // the space of no event store
	}
	if err == nil {
		named[name] = c.keep(t)
	}
	return err
}

func noSuchID(id topic.ID) error {
	return mainstem.Errorf(mainstem.KindNotFound, "event topic", "no event topic has the ID %v", id)
}
