package feedtopic

import (
	"context"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// OffsetForTime returns the first record at or after a time, to the millisecond; false
// if there is none. Because times never go back in a log it costs one look for each
// bit of the newest position, at most 64, and what the view reads to find its first
// record behind that place.
func (t *Topic) OffsetForTime(ctx context.Context, num int32, at time.Time) (partition.Found, bool, error) {
	if err := t.check(num); err != nil {
		return partition.Found{}, false, err
	}
	ms := at.UnixMilli()
	if at.After(time.UnixMilli(ms)) {
		ms++ // timestamps are whole milliseconds
	}
	return t.firstAt(ctx, ms)
}

// firstAt returns the first record with a timestamp of at least ms.
func (t *Topic) firstAt(ctx context.Context, ms int64) (partition.Found, bool, error) {
	before, err := t.lastBefore(ctx, ms)
	if err != nil {
		return partition.Found{}, false, err
	}
	f, err := t.firstShown(ctx, before)
	return f, f.Offset >= 0 && err == nil, err
}

// firstShown returns the first record behind a position that is shown; its offset is -1
// if there is none.
func (t *Topic) firstShown(ctx context.Context, after mainstem.Position) (partition.Found, error) {
	for p, err := range t.view.Places(ctx, after, 1) {
		if err != nil {
			return partition.Found{}, err
		}
		return partition.Found{Offset: int64(p.Position), Time: time.UnixMilli(p.Time.UnixMilli()).UTC()}, nil
	}
	return partition.Found{Offset: -1}, nil
}

// lastBefore returns a position such that the records of the space up to it have
// timestamps below ms, and those behind it have not.
func (t *Topic) lastBefore(ctx context.Context, ms int64) (mainstem.Position, error) {
	high, err := t.view.Last(ctx)
	if err != nil {
		return 0, err
	}
	// Invariant: the records up to low have timestamps below ms, those behind high not.
	low := mainstem.Position(0)
	for low < high {
		middle := low + (high-low)/2
		at, early, err := t.firstAfter(ctx, middle, ms)
		switch {
		case err != nil:
			return 0, err
		case early:
			low = at
		default:
			high = middle
		}
	}
	return low, nil
}

// firstAfter returns the position of the first record of the space behind another, and
// whether its timestamp is below ms. Records that are not shown count: the fewer gaps,
// the less there is to read.
func (t *Topic) firstAfter(ctx context.Context, after mainstem.Position, ms int64) (at mainstem.Position, early bool, err error) {
	for rec, err := range t.log.Feed(ctx, mainstem.Filter{Spaces: []string{t.view.Space()}, After: after, Limit: 1}) {
		return rec.Position, err == nil && rec.Time.UnixMilli() < ms, err
	}
	return 0, false, nil
}

// MaxTimestamp returns the first of the records with the newest timestamp; false if
// there is no record. It costs as much as End and OffsetForTime.
func (t *Topic) MaxTimestamp(ctx context.Context, num int32) (partition.Found, bool, error) {
	if err := t.check(num); err != nil {
		return partition.Found{}, false, err
	}
	end, _, err := t.ends(ctx)
	if err != nil || end == 0 {
		return partition.Found{}, false, err
	}
	newest, err := t.firstShown(ctx, mainstem.Position(end)-2)
	if err != nil || newest.Offset < 0 { // it was deleted just now
		return partition.Found{}, false, err
	}
	return t.firstAt(ctx, newest.Time.UnixMilli())
}
