package kafkatopic

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/internal/feedtopic"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// Options configures [Open]. nil and zero fields mean the defaults.
type Options struct {
	// Logger receives what a follower could not do. Default: discards.
	Logger *slog.Logger
}

// Catalog is the alert topics of a log. It is a [partition.Source].
type Catalog struct {
	log       mainstem.Log
	followers *feedtopic.Followers

	mu struct {
		sync.Mutex
		topics map[string]*table // by name: a table that is made anew replaces the one before
	}
}

// table is a table of alerts, as consumers see it.
type table struct {
	*feedtopic.Topic
	view view
}

// Contents implements [partition.Shown].
func (*table) Contents() string { return "the rows of a table of alerts" }

// Open returns the alert topics of log, which stays the caller's.
func Open(log mainstem.Log, o *Options) *Catalog {
	if o == nil {
		o = &Options{}
	}
	c := &Catalog{log: log, followers: feedtopic.OpenFollowers(log, o.Logger)}
	c.mu.topics = map[string]*table{}
	return c
}

// Close ends what waits and the goroutines that the catalog owns. Closing twice is
// allowed.
func (c *Catalog) Close() error {
	c.followers.Close()
	return nil
}

// Of implements [partition.Source].
func (*Catalog) Of() string { return "tables of alerts" }

// Reserved implements [partition.Source].
func (*Catalog) Reserved(name string) bool {
	_, ok := tableOf(name)
	return ok
}

// Topic returns the alert topic called name: NotFound if there is none.
func (c *Catalog) Topic(ctx context.Context, name string) (partition.Shown, error) {
	full, ok := tableOf(name)
	if !ok {
		return nil, mainstem.Errorf(mainstem.KindNotFound, "alert topic", "no table of alerts is shown as %q", name)
	}
	space, err := alert.TableSpace(ctx, c.log, full)
	if err != nil {
		return nil, err
	}
	info, err := c.log.Space(ctx, space)
	if err != nil {
		return nil, err
	}
	t, err := c.handle(ctx, &info, name)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// handle returns the handle of the table that info describes.
func (c *Catalog) handle(ctx context.Context, info *mainstem.SpaceInfo, name string) (*table, error) {
	id := idOf(info.Name, info.Created)
	c.mu.Lock()
	t := c.mu.topics[name]
	c.mu.Unlock()
	if t != nil && t.ID() == id {
		return t, nil
	}
	// A space without a table is one that somebody else has made.
	d, err := alert.OpenDecoder(ctx, c.log, info.Name)
	if err != nil {
		return nil, err
	}
	t = &table{view: view{log: c.log, space: info.Name}}
	t.view.decoder.Store(d)
	t.Topic = feedtopic.New(c.followers, name, id, &t.view)
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.mu.topics[name]; old != nil && old.ID() == id {
		return old, nil
	}
	c.mu.topics[name] = t
	return t, nil
}

// listed returns the handle of the table whose rows are in the space that info describes: NotFound
// if it has none, as the space of a table that was dropped may be there for longer.
func (c *Catalog) listed(ctx context.Context, info *mainstem.SpaceInfo, name string) (*table, error) {
	full, _ := tableOf(name)
	space, err := alert.TableSpace(ctx, c.log, full)
	if err != nil {
		return nil, err
	}
	if space != info.Name {
		return nil, mainstem.Errorf(mainstem.KindNotFound, "alert topic", "the space %q is of a table that was dropped", info.Name)
	}
	return c.handle(ctx, info, name)
}

// ByID returns the alert topic with the given ID: NotFound if there is none.
func (c *Catalog) ByID(ctx context.Context, id topic.ID) (partition.Shown, error) {
	if feedtopic.IsID(id) {
		all, err := c.All(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range all {
			if t.ID() == id {
				return t, nil
			}
		}
	}
	return nil, mainstem.Errorf(mainstem.KindNotFound, "alert topic", "no alert topic has the ID %v", id)
}

// All returns the alert topics in the order of their names.
func (c *Catalog) All(ctx context.Context) ([]partition.Shown, error) {
	var infos []mainstem.SpaceInfo
	for info, err := range c.log.Spaces(ctx, alert.SpacePrefix) {
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	var out []partition.Shown
	for i := range infos {
		name, ok := nameOf(infos[i].Name)
		if !ok {
			continue
		}
		t, err := c.listed(ctx, &infos[i], name)
		if errors.Is(err, mainstem.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b partition.Shown) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}
