package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// patience is how long a write may take to arrive at a watcher. Tests shorten it.
var patience = 30 * time.Second

// change is what a watcher was told.
type change struct {
	key   string
	value []byte
	at    time.Time
}

// watched is a table with a watcher.
type watched struct {
	changes chan change
	ended   chan error
	late    *time.Timer
}

func startWatch(ctx context.Context, b *fixture) (*suite.Round, error) {
	watcher, ok := b.store.(Watcher)
	if !ok {
		return nil, suite.Skipf("the contender does not tell of changes")
	}
	const table = "watched"
	if err := b.store.Set(ctx, table, first, []byte("value")); err != nil {
		return nil, err
	}
	w, err := watch(ctx, b, watcher, table)
	if err != nil {
		return nil, err
	}
	var data []Pair
	var answers kept[change]
	return &suite.Round{
		Prepare: func(_ context.Context, n int) error {
			answers.plan(n, mostChecked)
			b.round++
			data = pairs(n, b.round)
			return nil
		},
		Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
			worker := rec.Worker()
			for i := range n {
				began := time.Now()
				if err := b.store.Set(ctx, table, data[i].Key, data[i].Value); err != nil {
					return err
				}
				c, err := w.next(ctx)
				if err != nil {
					return fmt.Errorf("key %s was written: %w", data[i].Key, err)
				}
				if c.key != data[i].Key {
					return fmt.Errorf("key %s was written, and the watcher was told of %q", data[i].Key, c.key)
				}
				worker.Record(c.at.Sub(began))
				answers.add(i, c)
			}
			return nil
		},
		Check: func(ctx context.Context) error {
			err := answers.check(func(i int, c change) error { return same(c.key, c.value, data[i].Value) })
			if err != nil {
				return err
			}
			last := data[len(data)-1]
			got, err := b.store.Get(ctx, table, last.Key)
			if err != nil {
				return err
			}
			return same(last.Key, got, last.Value)
		},
	}, nil
}

// watch starts the watcher, which ends with the fixture.
func watch(ctx context.Context, b *fixture, watcher Watcher, table string) (*watched, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watched{changes: make(chan change, 16), ended: make(chan error, 1), late: time.NewTimer(patience)}
	ready := make(chan struct{})
	go func() {
		w.ended <- watcher.Watch(ctx, table, func() { close(ready) }, func(key string, value []byte) {
			select {
			case w.changes <- change{key, append([]byte(nil), value...), time.Now()}:
			case <-ctx.Done():
			}
		})
	}()
	b.end = append(b.end, func() error {
		cancel()
		w.late.Stop()
		if err := <-w.ended; err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("watch: %w", err)
		}
		return nil
	})
	select {
	case <-ready:
		return w, nil
	case err := <-w.ended:
		w.ended <- nil
		return nil, fmt.Errorf("watch ended: %w", errors.Join(err, context.Cause(ctx)))
	case <-w.late.C:
		return nil, fmt.Errorf("watch: not ready after %v", patience)
	}
}

// next returns the next change.
func (w *watched) next(ctx context.Context) (change, error) {
	w.late.Reset(patience)
	select {
	case c := <-w.changes:
		return c, nil
	case err := <-w.ended:
		w.ended <- nil
		return change{}, fmt.Errorf("the watch ended: %v", err)
	case <-w.late.C:
		return change{}, fmt.Errorf("the watcher was not told within %v", patience)
	case <-ctx.Done():
		return change{}, ctx.Err()
	}
}
