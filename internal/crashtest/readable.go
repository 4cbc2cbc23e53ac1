package crashtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// Readable checks that a log, which failed in step m after m-1 steps were
// acknowledged, still shows everything that they wrote: by key, by version and in
// the feed. Only keys that step m may have touched can be otherwise; reading them
// may fail with Unavailable.
func (w *Workload) Readable(ctx context.Context, l Log, c *Clock, m int) error {
	c.Set(0)
	state := &w.States[m-1]
	doubt := w.touched(m)
	for _, h := range state.keys {
		if doubt(h.space, h.key) {
			continue
		}
		var got []string
		for rec, err := range l.Read(ctx, h.space, h.key, mainstem.Versions{}) {
			if err != nil {
				return fmt.Errorf("reading space %s, key %.12q: %w", h.space, h.key, err)
			}
			got = append(got, Describe(&rec))
		}
		if !slices.Equal(got, h.records) {
			return fmt.Errorf("reading space %s, key %.12q: got %q, want %q", h.space, h.key, got, h.records)
		}
		if rec, err := l.Get(ctx, h.space, h.key); err != nil {
			if !errors.Is(err, mainstem.ErrNotFound) {
				return fmt.Errorf("getting space %s, key %.12q: %w", h.space, h.key, err)
			}
		} else if d := Describe(&rec); !slices.Contains(h.records, d) {
			return fmt.Errorf("getting space %s, key %.12q: got %s, want one of %q", h.space, h.key, d, h.records)
		}
	}
	return w.feedable(ctx, l, state, doubt)
}

func (w *Workload) feedable(ctx context.Context, l Log, state *Dump, doubt func(string, []byte) bool) error {
	var got []string
	for rec, err := range l.Feed(ctx, mainstem.Filter{}) {
		if err != nil {
			return fmt.Errorf("reading the feed: %w", err)
		}
		if !doubt(rec.Space, rec.Key) {
			got = append(got, Describe(&rec))
		}
	}
	var want []string
	for _, f := range state.feed {
		if !doubt(f.space, f.key) {
			want = append(want, f.text)
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the feed has %d records that were acknowledged, want %d: got %q, want %q", len(got), len(want), got, want)
	}
	return nil
}

// touched returns whether step m may have changed a key.
func (w *Workload) touched(m int) func(space string, key []byte) bool {
	s := &w.Steps[m-1]
	return func(space string, key []byte) bool {
		switch s.Action {
		case Sweep, Squeeze:
			return true
		case Commit:
			for _, write := range s.Batch.Writes() {
				if write.Space == space && string(write.Key) == string(key) {
					return true
				}
			}
			return false
		}
		return space == s.Space
	}
}
