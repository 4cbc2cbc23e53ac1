package event

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/mainstemdev/mainstem/bench/suite"
)

const (
	mostChecked = 128    // streams of a round that are read back, and answers that are looked at
	mostCounted = 20_000 // events of a round that are counted in the feed
	seeders     = 16     // goroutines that write what a case begins with
)

// fixture is a store with what a case does to it.
type fixture struct {
	f     Factory
	env   *suite.Env
	dir   string // of the store
	store Store
	quick bool
	scale bool // everything is counted, however much it is
	round int
	began uint64 // position at which the round began
	end   []func() error
}

// open opens a store of its own in the directory called name.
func (b *fixture) open(ctx context.Context, name string) (Store, error) {
	dir := filepath.Join(b.env.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return b.f.Open(ctx, b.env, dir)
}

func (b *fixture) close() error {
	var err error
	for _, end := range slices.Backward(b.end) {
		err = errors.Join(err, end())
	}
	if b.store == nil {
		return err
	}
	return errors.Join(err, b.store.Close())
}

// newRound clears the store and gives the streams of the round a new name.
func (b *fixture) newRound(ctx context.Context) error {
	if b.round > 0 {
		if err := b.store.Clear(ctx); err != nil {
			return fmt.Errorf("clear: %w", err)
		}
	}
	b.round++
	var err error
	b.began, err = b.store.LastPosition(ctx)
	return err
}

// name returns the name of the i-th stream of the round, with a category.
func (b *fixture) name(i int) string {
	return "bench" + strconv.Itoa(b.round) + "-" + strconv.Itoa(i)
}

func (b *fixture) names(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = b.name(i)
	}
	return names
}

// seed appends events to each of the streams, several at a time.
func (b *fixture) seed(ctx context.Context, streams []string, events []Event) error {
	return suite.Parallel(ctx, len(streams), min(seeders, len(streams)), suite.NewRecorder(1), func(ctx context.Context, _, i int) error {
		for part := range slices.Chunk(events, 1000) {
			if _, err := b.store.Append(ctx, streams[i], AnyVersion, part); err != nil {
				return fmt.Errorf("seed stream %s: %w", streams[i], err)
			}
		}
		return nil
	})
}

// holds checks that each of the streams has the events, and nothing else.
func (b *fixture) holds(ctx context.Context, streams []string, want []Event) error {
	var into []Recorded
	for _, i := range suite.Sample(len(streams), mostChecked) {
		var err error
		if into, err = b.store.Load(ctx, streams[i], 1, into[:0]); err != nil {
			return fmt.Errorf("read back stream %s: %w", streams[i], err)
		}
		if err := sameEvents(into, want, 1); err != nil {
			return fmt.Errorf("stream %s: %w", streams[i], err)
		}
		if len(into) > 0 && into[0].Position <= b.began {
			return fmt.Errorf("stream %s: its first event has position %d, and the round began after %d", streams[i], into[0].Position, b.began)
		}
	}
	return b.counts(ctx, len(streams)*len(want))
}

// counts checks that the feed has as many events since the round began, in order. Where
// the case is no scale test, so many that it would take longer than the round are not counted.
func (b *fixture) counts(ctx context.Context, want int) error {
	if want > mostCounted && !b.scale {
		return nil
	}
	versions := map[string]uint64{}
	got, last := 0, b.began
	for {
		page, err := b.store.Feed(ctx, last, 1000, nil)
		if err != nil {
			return fmt.Errorf("feed after %d: %w", last, err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if e.Position <= last {
				return fmt.Errorf("the feed has position %d after %d", e.Position, last)
			}
			if e.Version != versions[e.Stream]+1 {
				return fmt.Errorf("the feed has version %d of stream %q after version %d", e.Version, e.Stream, versions[e.Stream])
			}
			last, versions[e.Stream] = e.Position, e.Version
		}
		if got += len(page); got > want {
			break
		}
	}
	if got != want {
		return fmt.Errorf("the feed has %d events, want %d", got, want)
	}
	return nil
}

// sameEvents checks that got is want, with versions from first on.
func sameEvents(got []Recorded, want []Event, first uint64) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d events, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].Version != first+uint64(i) {
			return fmt.Errorf("event %d has version %d, want %d", i, got[i].Version, first+uint64(i))
		}
		if i > 0 && got[i].Position <= got[i-1].Position {
			return fmt.Errorf("event %d has position %d after %d", i, got[i].Position, got[i-1].Position)
		}
		if err := sameEvent(got[i].Event, want[i]); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	return nil
}

func sameEvent(got, want Event) error {
	if got.Type != want.Type || !bytes.Equal(got.Data, want.Data) {
		return fmt.Errorf("it is %s %.80q, want %s %.80q", got.Type, got.Data, want.Type, want.Data)
	}
	g, w := got.Metadata, want.Metadata
	if g == nil {
		g = &Metadata{}
	}
	if w == nil {
		w = &Metadata{}
	}
	if g.Correlation != w.Correlation || g.Causation != w.Causation || g.User != w.User || g.Tenant != w.Tenant || !maps.Equal(g.Custom, w.Custom) {
		return fmt.Errorf("its metadata is %v, want %v", *g, *w)
	}
	return nil
}
