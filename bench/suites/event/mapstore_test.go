package event

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// mapStore is an honest store. With a file it writes all of itself after each append.
type mapStore struct {
	mu      sync.Mutex
	log     []Recorded // under mu
	last    uint64     // under mu
	streams map[string][]Recorded
	changed chan struct{} // closed by the next append, under mu
	file    string        // under mu
}

func newMapStore() *mapStore {
	return &mapStore{streams: map[string][]Recorded{}, changed: make(chan struct{})}
}

func (s *mapStore) Append(_ context.Context, stream string, expected int64, events []Event) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version := uint64(len(s.streams[stream]))
	if expected != AnyVersion && version != uint64(expected) {
		return 0, ErrConflict
	}
	for _, e := range events {
		s.last++
		version++
		e.Data = append([]byte(nil), e.Data...)
		r := Recorded{Event: e, Stream: stream, Version: version, Position: s.last}
		s.streams[stream] = append(s.streams[stream], r)
		s.log = append(s.log, r)
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return version, s.save()
}

func (s *mapStore) save() error {
	if s.file == "" {
		return nil
	}
	f, err := os.Create(s.file)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(s.log), f.Close())
}

func (s *mapStore) Load(_ context.Context, stream string, from uint64, into []Recorded) ([]Recorded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(into, s.streams[stream][min(int(from)-1, len(s.streams[stream])):]...), nil
}

func (s *mapStore) Feed(_ context.Context, after uint64, limit int, into []Recorded) ([]Recorded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.log {
		if e.Position > after && limit > 0 {
			into = append(into, e)
			limit--
		}
	}
	return into, nil
}

func (s *mapStore) Info(_ context.Context, stream string) (Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := uint64(len(s.streams[stream]))
	return Info{Version: n, Count: n}, nil
}

func (s *mapStore) LastPosition(context.Context) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, nil
}

func (s *mapStore) Clear(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.streams)
	s.log = nil
	return s.save()
}

func (s *mapStore) Subscribe(ctx context.Context, after uint64, each func(*Recorded)) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		page, err := s.Feed(ctx, after, 1<<30, nil)
		if err != nil {
			return err
		}
		for i := range page {
			each(&page[i])
			after = page[i].Position
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *mapStore) Close() error { return nil }

// openFile opens an honest store in a file.
func openFile(dir string) (*mapStore, error) {
	s := newMapStore()
	s.file = filepath.Join(dir, "log")
	f, err := os.Open(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	err = errors.Join(json.NewDecoder(f).Decode(&s.log), f.Close())
	for _, e := range s.log {
		s.streams[e.Stream] = append(s.streams[e.Stream], e)
		s.last = e.Position
	}
	return s, err
}

func factory(open func() Store) Factory {
	return Factory{Name: "mine", Durability: suite.Memory, ScaleEvents: 2000, Open: func(context.Context, *suite.Env, string) (Store, error) { return open(), nil }}
}

// restarting returns a factory of stores in a file, each changed by change.
func restarting(change func(*mapStore) Store) Factory {
	return Factory{Name: "mine", Durability: suite.OS, Restarts: true, ScaleEvents: 100,
		Open: func(_ context.Context, _ *suite.Env, dir string) (Store, error) {
			s, err := openFile(dir)
			return change(s), err
		}}
}
