package feedtopic

import (
	"context"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
)

// Topic shows a view to consumers.
type Topic struct {
	log  mainstem.Log
	f    *Followers
	name string
	id   topic.ID
	view View

	// end remembers the newest record that is shown.
	end struct {
		sync.Mutex
		last    mainstem.Position
		seen    mainstem.Position // up to here there is none behind last
		revived mainstem.Position // of the view when that was so
	}
}

// New returns a topic that shows a view of the log that f follows.
func New(f *Followers, name string, id topic.ID, view View) *Topic {
	return &Topic{log: f.log, f: f, name: name, id: id, view: view}
}

// Name returns the topic's name.
func (t *Topic) Name() string { return t.name }

// ID returns what tells the topic from all others, always.
func (t *Topic) ID() topic.ID { return t.id }

// Partitions returns 1: what is shown is in one order.
func (t *Topic) Partitions() int32 { return 1 }

// Start returns 0: a reader that was behind what is gone since just goes on.
func (t *Topic) Start(_ context.Context, partition int32) (int64, error) {
	return 0, t.check(partition)
}

// End returns the offset behind the newest record that is shown, 0 if there is none. It
// is not told to clients what is behind that: some of them do not get past offsets
// without records at the end. So the end may go back, when the newest records are
// deleted or not shown any more: see Bound.
func (t *Topic) End(ctx context.Context, partition int32) (int64, error) {
	if err := t.check(partition); err != nil {
		return 0, err
	}
	end, _, err := t.ends(ctx)
	return end, err
}

// Bound returns the offset that no reader can be behind: that of the newest record of
// the space, whether it is shown or not. It never goes back.
func (t *Topic) Bound(ctx context.Context, partition int32) (int64, error) {
	if err := t.check(partition); err != nil {
		return 0, err
	}
	last, err := t.view.Last(ctx)
	return behind(last), err
}

// ends returns what End and Bound do, of one moment.
func (t *Topic) ends(ctx context.Context) (end, bound int64, err error) {
	spaceLast, err := t.view.Last(ctx)
	if err != nil {
		return 0, 0, err
	}
	last, err := t.lastShown(ctx, spaceLast)
	return behind(last), behind(max(last, spaceLast)), err
}

// behind returns the offset behind a position; 0 if there is no record: the first
// position of a log is 1.
func behind(last mainstem.Position) int64 {
	if last == 0 {
		return 0
	}
	return int64(last) + 1
}

// lastShown returns the position of the newest record that is shown, at least as new as
// any that was committed when the newest record of the space was spaceLast. It looks
// whether the one that it remembers is still shown, and at what was written since.
func (t *Topic) lastShown(ctx context.Context, spaceLast mainstem.Position) (mainstem.Position, error) {
	revived, err := t.view.Revived(ctx)
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
	if revived != t.end.revived { // older ones may be shown again
		seen = last
	}
	newer, err := t.newestShown(ctx, seen, spaceLast)
	if err != nil {
		return 0, err
	}
	t.end.last, t.end.seen, t.end.revived = max(last, newer), max(spaceLast, newer), revived
	return t.end.last, nil
}

// newestShown returns the position of the newest record that is shown and behind low, 0
// if there is none. From high, the newest record, it goes back in ever larger steps, so
// what it reads is in proportion to what is not shown there.
func (t *Topic) newestShown(ctx context.Context, low, high mainstem.Position) (mainstem.Position, error) {
	for width := mainstem.Position(1); low < high; width *= 4 {
		from := low
		if high-low > width {
			from = high - width
		}
		newest := mainstem.Position(0)
		for p, err := range t.view.Places(ctx, from, 0) {
			if err != nil {
				return 0, err
			}
			newest = p.Position
		}
		if newest > 0 || from == low {
			return newest, nil
		}
	}
	return 0, nil
}
