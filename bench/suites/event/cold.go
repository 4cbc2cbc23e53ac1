package event

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// What cold and recovery begin with: streams of 100 events.
const (
	coldStreams  = 1000
	coldQuick    = 50
	coldEvents   = 100
	coldLoads    = 50
	diskBatches  = 100
	diskPerBatch = 100
	diskBefore   = 400 // batches that are there before
)

func (b *fixture) coldNames() []string {
	if b.quick {
		return b.names(coldQuick)
	}
	return b.names(coldStreams)
}

// startCold returns a round that loads streams, each once, after the store was
// closed, its files were put out of the page cache, and it was opened again.
func startCold(ctx context.Context, b *fixture) (*suite.Round, error) {
	events := batch(coldEvents)
	if err := b.newRound(ctx); err != nil {
		return nil, err
	}
	streams := b.coldNames()
	if err := b.seed(ctx, streams, events); err != nil {
		return nil, err
	}
	var picked []string
	var got [][]Recorded
	return &suite.Round{
		Prepare: func(ctx context.Context, n int) error {
			picked, got = picked[:0], make([][]Recorded, n)
			for len(picked) < n {
				for _, i := range rand.Perm(len(streams))[:min(len(streams), n-len(picked))] {
					picked = append(picked, streams[i])
				}
			}
			return b.reopenCold(ctx)
		},
		Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
			return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) (err error) {
				got[i], err = b.store.Load(ctx, picked[i], 1, nil)
				return err
			})
		},
		Check: func(context.Context) error {
			for i := range got {
				if err := sameEvents(got[i], events, 1); err != nil {
					return fmt.Errorf("stream %s: %w", picked[i], err)
				}
			}
			return nil
		},
	}, nil
}

// reopenCold closes the store, puts its files out of the page cache, and opens it.
func (b *fixture) reopenCold(ctx context.Context) error {
	store := b.store
	b.store = nil
	if err := store.Close(); err != nil {
		return err
	}
	if err := evict(filepath.Join(b.env.Dir, b.dir)); err != nil {
		return err
	}
	var err error
	b.store, err = b.open(ctx, b.dir)
	return err
}

// startRecovery returns a round that opens copies of what a killed process left,
// each until its last position is known and one stream is loaded.
func startRecovery(ctx context.Context, b *fixture) (*suite.Round, error) {
	events := batch(coldEvents)
	if err := b.newRound(ctx); err != nil {
		return nil, err
	}
	streams := b.coldNames()
	if err := b.seed(ctx, streams, events); err != nil {
		return nil, err
	}
	last, err := b.store.LastPosition(ctx)
	if err != nil {
		return nil, err
	}
	killed := filepath.Join(b.env.Dir, "killed")
	if err := image(ctx, filepath.Join(b.env.Dir, b.dir), killed); err != nil {
		return nil, err
	}
	r := &recovery{b: b, killed: killed, streams: streams, events: events, last: last}
	b.end = append(b.end, r.close)
	return &suite.Round{Prepare: r.prepare, Run: r.run, Check: r.check}, nil
}

// recovery is the stores that were opened in a round.
type recovery struct {
	b       *fixture
	killed  string
	streams []string
	events  []Event
	last    uint64
	open    []Store
	copies  int
}

func (r *recovery) prepare(_ context.Context, n int) error {
	r.copies = n
	for i := range n {
		if err := copyTree(r.killed, filepath.Join(r.b.env.Dir, r.name(i))); err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) name(i int) string { return fmt.Sprintf("copy-%d", i) }

func (r *recovery) run(ctx context.Context, n int, rec *suite.Recorder) error {
	var into []Recorded
	return suite.Loop(ctx, n, rec, func(ctx context.Context, i int) error {
		s, err := r.b.open(ctx, r.name(i))
		if err != nil {
			return err
		}
		r.open = append(r.open, s)
		last, err := s.LastPosition(ctx)
		if err != nil {
			return err
		}
		if last != r.last {
			return fmt.Errorf("the last position is %d after the recovery, and was %d", last, r.last)
		}
		into, err = s.Load(ctx, r.streams[i%len(r.streams)], 1, into[:0])
		if err == nil && len(into) != len(r.events) {
			err = fmt.Errorf("stream %s has %d events after the recovery, want %d", r.streams[i%len(r.streams)], len(into), len(r.events))
		}
		return err
	})
}

func (r *recovery) check(ctx context.Context) error {
	for _, s := range r.open {
		for _, i := range suite.Sample(len(r.streams), 8) {
			got, err := s.Load(ctx, r.streams[i], 1, nil)
			if err != nil {
				return err
			}
			if err := sameEvents(got, r.events, 1); err != nil {
				return fmt.Errorf("stream %s after the recovery: %w", r.streams[i], err)
			}
		}
	}
	return r.close()
}

// close closes what was opened and removes the copies.
func (r *recovery) close() error {
	var err error
	for _, s := range r.open {
		err = errors.Join(err, s.Close())
	}
	r.open = nil
	for i := range r.copies {
		err = errors.Join(err, os.RemoveAll(filepath.Join(r.b.env.Dir, r.name(i))))
	}
	r.copies = 0
	return err
}
