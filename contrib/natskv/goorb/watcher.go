package goorb

import (
	"context"
	"errors"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/contrib/natskv/internal/fields"
	"github.com/mainstemdev/mainstem/kv"
)

// The operations of go-orb's events.
const (
	opCreate = 0
	opUpdate = 1
	opDelete = 2
)

// Watcher has the method of go-orb's kvstore.Watcher, once its type parameters are
// the types of that package. A service embeds it beside a [KVStore].
type Watcher[Event, Options any, Option ~func(*Options)] struct{ s store }

// NewWatcher returns a watcher over a store; see [New].
func NewWatcher[Event, Options any, Option ~func(*Options)](ctx context.Context, s *natskv.Store, c *Config) (*Watcher[Event, Options, Option], error) {
	if err := fields.Check[Event](map[string]any{"Key": "", "Value": []byte(nil), "Operation": opDelete}); err != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "goorb", Err: err}
	}
	return &Watcher[Event, Options, Option]{newStore(ctx, s, c)}, nil
}

// Watch sends the current records of the table, and then its changes as they happen, to
// the channel. A bucket that does not exist is created. The function returned stops the
// watch and waits until it has; the channel is closed then, and also when ctx
// ends, the store is closed, or the bucket is dropped. What the watch cannot
// read is left out. Of the options, IgnoreDeletes, IncludeHistory, UpdatesOnly and
// MetaOnly are heeded.
func (w *Watcher[Event, Options, Option]) Watch(
	ctx context.Context, database, table string, opts ...Option,
) (<-chan Event, func() error, error) {
	var o Options
	for _, opt := range opts {
		opt(&o)
	}
	b, err := w.s.table(database, table)
	if err != nil {
		return nil, nil, err
	}
	if err := b.Ensure(ctx); err != nil {
		return nil, nil, err
	}
	f := fields.Of(&o)
	options := &kv.WatchOptions{
		IgnoreDeletes: f.Bool("IgnoreDeletes"), History: f.Bool("IncludeHistory"),
		UpdatesOnly: f.Bool("UpdatesOnly"), MetaOnly: f.Bool("MetaOnly"),
	}
	ctx, cancel := context.WithCancel(ctx)
	p := pump[Event]{out: make(chan Event), begun: make(chan error, 1)}
	var running sync.WaitGroup
	running.Go(func() { p.run(ctx, b, options) })
	stop := func() error {
		cancel()
		running.Wait()
		return nil
	}
	if err := <-p.begun; err != nil { // what is written from now on, the watch tells
		return nil, nil, errors.Join(err, stop())
	}
	return p.out, stop, nil
}

// pump carries what a watch tells to a channel.
type pump[Event any] struct {
	out   chan Event
	begun chan error // told once: nil when the watch has begun
}

func (p *pump[Event]) run(ctx context.Context, b *natskv.Bucket[[]byte], o *kv.WatchOptions) {
	defer close(p.out)
	first := true
	for e, err := range b.Watch(ctx, o) {
		corrupt := errors.Is(err, mainstem.ErrCorrupt)
		if first {
			if first = false; corrupt {
				p.begun <- nil
			} else {
				p.begun <- err
			}
		}
		if corrupt || err == nil && e.Op == kv.OpSynced {
			continue
		}
		if err != nil {
			return
		}
		select {
		case p.out <- event[Event](&e):
		case <-ctx.Done():
			return
		}
	}
}

// event makes go-orb's event of an entry.
func event[Event any](e *kv.Entry[[]byte]) Event {
	var out Event
	f := fields.Of(&out)
	fill(f, e)
	switch e.Op {
	case kv.OpCreate:
		f.Set("Operation", opCreate)
	case kv.OpUpdate:
		f.Set("Operation", opUpdate)
	default:
		f.Set("Operation", opDelete)
	}
	return out
}
