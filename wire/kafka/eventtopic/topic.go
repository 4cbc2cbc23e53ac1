package eventtopic

import (
	"context"
	"errors"
	"iter"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/feedtopic"
	"github.com/mainstemdev/mainstem/topic"
)

// stored is the topic of an event store, or of one of its categories. It implements
// [partition.Shown].
type stored struct {
	*feedtopic.Topic
	view view
}

// Contents implements [partition.Shown].
func (*stored) Contents() string { return "the events of a store" }

func newTopic(c *Catalog, store *event.Store, category string, id topic.ID) *stored {
	t := &stored{view: view{log: c.log, store: store, category: category}}
	if category != "" {
		t.view.prefix = []byte(category + "-")
	}
	t.Topic = feedtopic.New(c.followers, nameOf(store.Name(), category), id, &t.view)
	return t
}

// anyStream returns whether the space has a record of a stream of the category, even a
// tombstone.
func (t *stored) anyStream(ctx context.Context) (bool, error) {
	stream, err := firstKey(ctx, t.view.log, t.view.Space(), mainstem.Range{Prefix: t.view.prefix})
	return stream != "", err
}

// view is the [feedtopic.View] of a topic: the feed of a store, or of one of its categories.
type view struct {
	log      mainstem.Log
	store    *event.Store
	category string // "": all
	prefix   []byte // of the names of the category's streams; empty for a whole store
}

// Space implements [feedtopic.View].
func (v *view) Space() string { return v.store.Space() }

// KeyPrefix implements [feedtopic.View].
func (v *view) KeyPrefix() []byte { return v.prefix }

// Last implements [feedtopic.View].
func (v *view) Last(ctx context.Context) (mainstem.Position, error) {
	return v.store.LastPosition(ctx)
}

// sealSpacePrefix is the beginning of the name of the space in which package event records
// that a stream is archived, see docs/format.md.
const sealSpacePrefix = "event.seal/"

// Revived implements [feedtopic.View]: events are shown again when a stream is restored from
// the archive. It returns the position of the newest record that archives or restores a
// stream, 0 if there is none.
func (v *view) Revived(ctx context.Context) (mainstem.Position, error) {
	info, err := v.log.Space(ctx, sealSpacePrefix+v.store.Name())
	if err != nil {
		return 0, ignoreNotFound(err)
	}
	return info.Last, nil
}

// Records implements [feedtopic.View].
func (v *view) Records(ctx context.Context, after mainstem.Position) iter.Seq2[*feedtopic.Record, error] {
	return func(yield func(*feedtopic.Record, error) bool) {
		var hs headers
		var r feedtopic.Record
		for ev, err := range v.store.Feed(ctx, &event.FeedOptions{After: after, Filter: event.Filter{Category: v.category}}) {
			if err != nil {
				yield(nil, err)
				return
			}
			r = feedtopic.Record{Place: placeOf(&ev), Key: ev.Stream, Value: ev.Data, Headers: hs.of(&ev)}
			if !yield(&r, nil) {
				return
			}
		}
	}
}

// Places implements [feedtopic.View].
func (v *view) Places(ctx context.Context, after mainstem.Position, limit int) iter.Seq2[feedtopic.Place, error] {
	return func(yield func(feedtopic.Place, error) bool) {
		for ev, err := range v.store.Feed(ctx, &event.FeedOptions{After: after, Filter: event.Filter{Category: v.category}, Limit: limit}) {
			if !yield(placeOf(&ev), err) || err != nil {
				return
			}
		}
	}
}

func placeOf(ev *event.Recorded) feedtopic.Place {
	return feedtopic.Place{Position: ev.Position, Time: ev.Time}
}

func ignoreNotFound(err error) error {
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil
	}
	return err
}
