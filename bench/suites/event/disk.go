package event

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// atRest is a store that is filled in each round, and looked at when it is closed: what an
// open one takes is, for some, what they have reserved or not yet put in order.
type atRest struct {
	b        *fixture
	events   []Event
	streams  []string // that are appended to in the round
	appended int      // events that the files hold
}

// startDisk returns a round that appends to a store of its own, closes it and looks how much
// of the disk it takes. A store that is a [Sizer] stays open, with what the rounds before
// appended.
func startDisk(ctx context.Context, b *fixture) (*suite.Round, error) {
	r := &atRest{b: b, events: batch(diskPerBatch)}
	return &suite.Round{Prepare: r.prepare, Run: r.run, Check: r.check, Metrics: r.metrics}, ctx.Err()
}

func (r *atRest) prepare(ctx context.Context, n int) (err error) {
	b := r.b
	b.round++
	if b.store == nil {
		b.dir = fmt.Sprintf("store-%d", b.round)
		if b.store, err = b.open(ctx, b.dir); err != nil {
			return err
		}
	}
	before := diskBefore
	if b.quick {
		before = 0
	}
	names := b.names(n + before)
	r.streams = names[:n]
	if before > 0 {
		if err := b.seed(ctx, names[n:], r.events); err != nil {
			return err
		}
	}
	r.appended += before * len(r.events)
	b.began, err = b.store.LastPosition(ctx)
	return err
}

func (r *atRest) run(ctx context.Context, n int, rec *suite.Recorder) error {
	r.appended += n * len(r.events)
	return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
		_, err := r.b.store.Append(ctx, r.streams[i], AnyVersion, r.events)
		return err
	})
}

func (r *atRest) check(ctx context.Context) error { return r.b.holds(ctx, r.streams, r.events) }

func (r *atRest) metrics(ctx context.Context) ([]suite.Metric, error) {
	size, err := r.size(ctx)
	metrics := []suite.Metric{{Name: "disk", Unit: "B/event", Value: float64(size) / float64(max(r.appended, 1))}}
	if r.b.store == nil {
		r.appended = 0
	}
	return metrics, err
}

// size returns what the events take, and closes and removes the store unless it knows by itself.
func (r *atRest) size(ctx context.Context) (int64, error) {
	b := r.b
	if s, ok := b.store.(Sizer); ok {
		return s.DiskBytes(ctx)
	}
	store, dir := b.store, filepath.Join(b.env.Dir, b.dir)
	b.store = nil
	if err := store.Close(); err != nil {
		return 0, err
	}
	size, err := diskBytes(dir)
	if err != nil {
		return 0, err
	}
	return size, os.RemoveAll(dir)
}
