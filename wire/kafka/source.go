package kafka

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/alerttopic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/eventtopic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/feedtopic"
)

// source is a topic as consumers see it: a [topic.Topic], or an event store or a table
// of alerts shown as one.
type source interface {
	Name() string
	ID() topic.ID
	Partitions() int32
	Start(ctx context.Context, partition int32) (int64, error)
	End(ctx context.Context, partition int32) (int64, error)
	Read(ctx context.Context, partition int32, offset int64, o *topic.ReadOptions) (topic.Chunk, error)
	OffsetForTime(ctx context.Context, partition int32, at time.Time) (topic.Found, bool, error)
	MaxTimestamp(ctx context.Context, partition int32) (topic.Found, bool, error)
}

// source returns the topic called name, or with the given ID if name is empty. A
// topic hides what would be shown under its name.
func (s *Server) source(ctx context.Context, name string, id topic.ID) (source, error) {
	switch {
	case name == "" && feedtopic.IsID(id):
		t, err := s.events.ByID(ctx, id)
		if errors.Is(err, mainstem.ErrNotFound) {
			return s.alerts.ByID(ctx, id)
		}
		return t, err
	case name == "":
		return s.topics.ByID(ctx, id)
	}
	t, err := s.topics.Topic(ctx, name)
	if !errors.Is(err, mainstem.ErrNotFound) {
		return t, err
	}
	switch {
	case eventtopic.Reserved(name):
		return s.events.Topic(ctx, name)
	case alerttopic.Reserved(name):
		return s.alerts.Topic(ctx, name)
	}
	return t, err
}

// shownUnder returns what has names like this one, "" if topics have: such a name is
// not for clients to take, because what it shows may come to be.
func shownUnder(name string) string {
	switch {
	case eventtopic.Reserved(name):
		return "event stores"
	case alerttopic.Reserved(name):
		return "tables of alerts"
	}
	return ""
}

// shows says what a source shows that is no topic of its own.
func shows(src source) string {
	if _, ok := src.(*alerttopic.Topic); ok {
		return "the rows of a table of alerts"
	}
	return "the events of a store"
}

// leaderEpoch is the only leader epoch there is: a partition never has another leader.
const leaderEpoch = 0

// partitionKey names a partition for good.
type partitionKey struct {
	id  topic.ID
	num int32
}

// wakers wakes fetches that wait for the end of a transaction. The zero wakers is ready.
type wakers struct {
	sync.Mutex
	of map[partitionKey]map[chan<- struct{}]struct{}
}

// add registers wake, of capacity 1, for a partition.
func (w *wakers) add(k partitionKey, wake chan<- struct{}) {
	w.Lock()
	defer w.Unlock()
	if w.of == nil {
		w.of = map[partitionKey]map[chan<- struct{}]struct{}{}
	}
	if w.of[k] == nil {
		w.of[k] = map[chan<- struct{}]struct{}{}
	}
	w.of[k][wake] = struct{}{}
}

func (w *wakers) remove(k partitionKey, wake chan<- struct{}) {
	w.Lock()
	defer w.Unlock()
	delete(w.of[k], wake)
	if len(w.of[k]) == 0 {
		delete(w.of, k)
	}
}

// wake wakes all that wait for a partition.
func (w *wakers) wake(id topic.ID, partition int32) {
	w.Lock()
	defer w.Unlock()
	for wake := range w.of[partitionKey{id, partition}] {
		select {
		case wake <- struct{}{}:
		default: // it is awake already
		}
	}
}
