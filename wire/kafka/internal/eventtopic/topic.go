package eventtopic

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/topic"
)

// Topic is an event store, or one category of it, as consumers see it.
type Topic struct {
	c        *Catalog
	store    *event.Store
	category string
	name     string
	id       topic.ID
	prefix   []byte // of the streams' names; empty for a whole store

	// end remembers the newest event that is shown.
	end struct {
		sync.Mutex
		last  mainstem.Position
		seen  mainstem.Position // up to here there is none behind last
		seals mainstem.Position // of the newest seal of a stream when that was so
	}
}

func newTopic(c *Catalog, store *event.Store, category string, id topic.ID) *Topic {
	t := &Topic{c: c, store: store, category: category, id: id, name: nameOf(store.Name(), category)}
	if category != "" {
		t.prefix = []byte(category + "-")
	}
	return t
}

// Name returns the topic's name.
func (t *Topic) Name() string { return t.name }

// ID returns what tells the topic from all others, for ever.
func (t *Topic) ID() topic.ID { return t.id }

// Partitions returns 1: the events of a store are in one order.
func (t *Topic) Partitions() int32 { return 1 }

// Store returns the name of the event store.
func (t *Topic) Store() string { return t.store.Name() }

// Category returns the category whose events the topic has, "" for the whole store.
func (t *Topic) Category() string { return t.category }

func (t *Topic) check(partition int32) error {
	if partition != 0 {
		return notFound(fmt.Errorf("no partition %d: %s has only partition 0", partition, t.name))
	}
	return nil
}

// Start returns 0: a reader that was behind what was deleted since just goes on.
func (t *Topic) Start(_ context.Context, partition int32) (int64, error) {
	return 0, t.check(partition)
}

// End returns the offset behind the newest event that is shown, 0 if there is none. It
// is not told to clients what is behind that: some of them do not get past offsets
// without records at the end. So the end may go back, when the newest events are deleted
// or their streams archived: see Bound.
func (t *Topic) End(ctx context.Context, partition int32) (int64, error) {
	if err := t.check(partition); err != nil {
		return 0, err
	}
	end, _, err := t.ends(ctx)
	return end, err
}

// Bound returns the offset that no reader can be behind: that of the newest record of
// the store, whether it is shown or not. It never goes back.
func (t *Topic) Bound(ctx context.Context, partition int32) (int64, error) {
	if err := t.check(partition); err != nil {
		return 0, err
	}
	last, err := t.store.LastPosition(ctx)
	return behind(last), err
}

// ends returns what End and Bound do, of one moment.
func (t *Topic) ends(ctx context.Context) (end, bound int64, err error) {
	storeLast, err := t.store.LastPosition(ctx)
	if err != nil {
		return 0, 0, err
	}
	last, err := t.lastShown(ctx, storeLast)
	return behind(last), behind(max(last, storeLast)), err
}

// behind returns the offset behind a position; 0 if there is no record: the first
// position of a log is 1.
func behind(last mainstem.Position) int64 {
	if last == 0 {
		return 0
	}
	return int64(last) + 1
}

// lastShown returns the position of the newest event that is shown, at least as new as
// any that was committed when the newest record of the store was storeLast. It looks
// whether the one that it remembers is still shown, and at what was written since.
func (t *Topic) lastShown(ctx context.Context, storeLast mainstem.Position) (mainstem.Position, error) {
	seals, err := t.newestSeal(ctx)
	if err != nil {
		return 0, err
	}
	t.end.Lock()
	defer t.end.Unlock()
	last, seen := t.end.last, t.end.seen
	if last > 0 {
		now, err := t.firstShown(ctx, last-1)
		if err != nil {
			return 0, err
		}
		if mainstem.Position(now.Offset) != last { // it is not shown any more
			last, seen = 0, 0
		}
	}
	if seals != t.end.seals { // older ones may be shown again
		seen = last
	}
	newer, err := t.newestShown(ctx, seen, storeLast)
	if err != nil {
		return 0, err
	}
	t.end.last, t.end.seen, t.end.seals = max(last, newer), max(storeLast, newer), seals
	return t.end.last, nil
}

// newestShown returns the position of the newest event that is shown and behind low, 0
// if there is none. From high, the newest record, it goes back in ever larger steps, so
// what it reads is in proportion to what is not shown there.
func (t *Topic) newestShown(ctx context.Context, low, high mainstem.Position) (mainstem.Position, error) {
	for width := mainstem.Position(1); low < high; width *= 4 {
		from := low
		if high-low > width {
			from = high - width
		}
		newest := mainstem.Position(0)
		for ev, err := range t.store.Feed(ctx, &event.FeedOptions{After: from, Category: t.category}) {
			if err != nil {
				return 0, err
			}
			newest = ev.Position
		}
		if newest > 0 || from == low {
			return newest, nil
		}
	}
	return 0, nil
}

// sealSpacePrefix begins the name of the space in which package event notes that a
// stream is archived, see docs/format.md.
const sealSpacePrefix = "event.seal/"

// newestSeal returns the position of the newest record that says that a stream of the
// store is archived, or is no longer.
func (t *Topic) newestSeal(ctx context.Context) (mainstem.Position, error) {
	info, err := t.c.log.Space(ctx, sealSpacePrefix+t.store.Name())
	if err != nil {
		return 0, ignoreNotFound(err)
	}
	return info.Last, nil
}

// anyStream reports whether a stream of the category was ever seen.
func (t *Topic) anyStream(ctx context.Context) (bool, error) {
	stream, err := firstKey(ctx, t.c.log, t.store.Space(), mainstem.Range{Prefix: t.prefix})
	return stream != "", err
}

func ignoreNotFound(err error) error {
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil
	}
	return err
}
