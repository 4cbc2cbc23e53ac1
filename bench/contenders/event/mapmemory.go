package event

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"sort"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/event"
)

// mapMemory is an event store as one writes it in an afternoon: maps and slices under a
// lock, gone with the process. It copies what it is given and what it gives.
func mapMemory() event.Factory {
	return event.Factory{
		Name: "map-memory", Durability: suite.Memory, Transport: suite.InProcess,
		Note: "Go maps and slices under an RWMutex, written by hand: nothing is ever on a disk, and nobody is told of appends",
		Open: func(context.Context, *suite.Env, string) (event.Store, error) {
			return &mapStore{streams: map[string][]*mapEvent{}}, nil
		},
	}
}

// mapEvent is an event with what a store adds to it. It does not change.
type mapEvent struct {
	event.Recorded
	id   string
	time time.Time
}

type mapStore struct {
	mu      sync.RWMutex
	streams map[string][]*mapEvent
	log     []*mapEvent // by position
	last    uint64      // position
}

// newID returns a random UUID in its usual form.
func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it does not fail
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

func copyEvent(e event.Event) event.Event {
	e.Data = bytes.Clone(e.Data)
	if e.Metadata != nil {
		m := *e.Metadata
		m.Custom = maps.Clone(m.Custom)
		e.Metadata = &m
	}
	return e
}

func (s *mapStore) Append(_ context.Context, stream string, expected int64, events []event.Event) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.streams[stream]
	if expected != event.AnyVersion && uint64(expected) != uint64(len(held)) {
		return 0, event.ErrConflict
	}
	now := time.Now()
	for _, e := range events {
		s.last++
		r := &mapEvent{id: newID(), time: now}
		r.Recorded = event.Recorded{Event: copyEvent(e), Stream: stream, Version: uint64(len(held)) + 1, Position: s.last}
		held = append(held, r)
		s.log = append(s.log, r)
	}
	s.streams[stream] = held
	return uint64(len(held)), nil
}

// copies appends copies of events to into.
func copies(into []event.Recorded, events []*mapEvent) []event.Recorded {
	for _, e := range events {
		r := e.Recorded
		r.Event = copyEvent(r.Event)
		into = append(into, r)
	}
	return into
}

func (s *mapStore) Load(_ context.Context, stream string, from uint64, into []event.Recorded) ([]event.Recorded, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	held := s.streams[stream]
	return copies(into, held[min(max(from, 1)-1, uint64(len(held))):]), nil
}

func (s *mapStore) Feed(_ context.Context, after uint64, limit int, into []event.Recorded) ([]event.Recorded, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := sort.Search(len(s.log), func(i int) bool { return s.log[i].Position > after })
	return copies(into, s.log[i:min(i+limit, len(s.log))]), nil
}

func (s *mapStore) Info(_ context.Context, stream string) (event.Info, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := uint64(len(s.streams[stream]))
	return event.Info{Version: n, Count: n}, nil
}

func (s *mapStore) LastPosition(context.Context) (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.last, nil
}

func (s *mapStore) Clear(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.streams)
	s.log = nil
	return nil
}

func (s *mapStore) Close() error { return nil }
