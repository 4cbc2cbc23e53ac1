package event

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/mainstemdev/mainstem"
	view "github.com/mainstemdev/mainstem/event"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/event"
)

// mainstemLogs are the event view on every engine.
func mainstemLogs() []event.Factory {
	var all []event.Factory
	for _, e := range engines.All() {
		f := event.Factory{
			Name: e.Name, Durability: e.Durability, Transport: e.Transport, Address: e.Address, Note: e.Note, Skip: e.Skip, Restarts: e.Restarts,
			Open: func(ctx context.Context, env *suite.Env, dir string) (event.Store, error) {
				log, err := e.Open(ctx, env, dir)
				if err != nil {
					return nil, err
				}
				store, err := view.Open(log, "bench", nil)
				if err != nil {
					return nil, errors.Join(err, log.Close())
				}
				return &mainstemStore{log: log, store: store}, nil
			},
		}
		if e.Server || e.Durability == suite.Fsync {
			f.ScaleEvents = slowScale
		}
		if strings.HasPrefix(e.Name, "mainstem-postgres-") {
			f.Lacks = map[string]string{"disk": "its tables are among the files of the server"}
		}
		all = append(all, f)
	}
	return all
}

// mainstemStore is the event view on a log.
type mainstemStore struct {
	log   mainstem.Log
	store *view.Store
	loads sync.Pool // *[]view.Recorded, what a load returned, to be used again
}

func (s *mainstemStore) Append(ctx context.Context, stream string, expected int64, events []event.Event) (uint64, error) {
	all := make([]view.Event, len(events))
	for i, e := range events {
		all[i] = view.Event{Type: e.Type, Data: e.Data}
		if m := e.Metadata; m != nil {
			all[i].Metadata = view.Metadata{CorrelationID: m.Correlation, CausationID: m.Causation, UserID: m.User, TenantID: m.Tenant, Custom: m.Custom}
		}
	}
	done, err := s.store.Append(ctx, stream, view.Expected(expected), all)
	if errors.Is(err, mainstem.ErrConflict) {
		err = event.ErrConflict
	}
	return uint64(done.Last), err
}

func (s *mainstemStore) Load(ctx context.Context, stream string, from uint64, into []event.Recorded) ([]event.Recorded, error) {
	found, _ := s.loads.Get().(*[]view.Recorded)
	if found == nil {
		found = new([]view.Recorded)
	}
	defer s.loads.Put(found)
	events, err := s.store.Load(ctx, stream, &view.LoadOptions{From: mainstem.Version(from), Into: (*found)[:0]})
	if err == nil {
		*found = events
	}
	return appendRecorded(into, events), err
}

func (s *mainstemStore) Feed(ctx context.Context, after uint64, limit int, into []event.Recorded) ([]event.Recorded, error) {
	found, err := s.store.Page(ctx, &view.FeedOptions{After: mainstem.Position(after), Limit: limit})
	return appendRecorded(into, found), err
}

func appendRecorded(into []event.Recorded, found []view.Recorded) []event.Recorded {
	for i := range found {
		into = append(into, recorded(&found[i]))
	}
	return into
}

func recorded(r *view.Recorded) event.Recorded {
	e := event.Recorded{
		Event:  event.Event{Type: r.Type, Data: r.Data},
		Stream: r.Stream, Version: uint64(r.Version), Position: uint64(r.Position),
	}
	if m := &r.Metadata; m.CorrelationID != "" || m.CausationID != "" || m.UserID != "" || m.TenantID != "" || m.Custom != nil {
		e.Metadata = &event.Metadata{Correlation: m.CorrelationID, Causation: m.CausationID, User: m.UserID, Tenant: m.TenantID, Custom: m.Custom}
	}
	return e
}

func (s *mainstemStore) Info(ctx context.Context, stream string) (event.Info, error) {
	i, err := s.store.StreamInfo(ctx, stream)
	return event.Info{Version: uint64(i.Version), Count: i.Count}, err
}

func (s *mainstemStore) LastPosition(ctx context.Context) (uint64, error) {
	p, err := s.store.LastPosition(ctx)
	return uint64(p), err
}

// Subscribe implements [event.Subscriber].
func (s *mainstemStore) Subscribe(ctx context.Context, after uint64, each func(*event.Recorded)) error {
	for r, err := range s.store.Feed(ctx, &view.FeedOptions{After: mainstem.Position(after), Follow: true}) {
		if errors.Is(err, mainstem.ErrCanceled) {
			return context.Canceled
		}
		if err != nil {
			return err
		}
		e := recorded(&r)
		each(&e)
	}
	return nil
}

func (s *mainstemStore) Clear(ctx context.Context) error { return s.store.Drop(ctx) }

func (s *mainstemStore) Close() error { return s.log.Close() }
