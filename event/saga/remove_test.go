package saga_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/saga"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/kv"
)

// A saga that has ended can be removed completely. A start event with its key starts a new saga,
// whose commands the bus does not take for those of the old one.
func TestRemove(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		s := newShop(t, log)
		e := s.start(nil, nil)
		id := saga.ID("fulfilment", "1")
		s.append("1", placed{"book"})
		s.append("2", placed{unpaid})
		s.until("1", saga.Completed)
		s.until("2", saga.Started)
		for id, want := range map[string]error{saga.ID("fulfilment", "2"): saga.ErrNotEnded, saga.ID("fulfilment", "none"): mainstem.ErrNotFound} {
			if err := s.records.Removable(t.Context(), id); !errors.Is(err, want) {
				t.Errorf("whether %s is removable: %v, want %v", id, err, want)
			}
			if err := s.records.Remove(t.Context(), id); !errors.Is(err, want) {
				t.Errorf("remove %s: %v, want %v", id, err, want)
			}
		}
		s.must(s.records.Removable(t.Context(), id))
		s.must(s.records.Remove(t.Context(), id))
		if _, err := s.records.Get(t.Context(), id); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("the removed one: %v", err)
		}
		for _, err := range s.records.History(t.Context(), id) {
			if !errors.Is(err, mainstem.ErrNotFound) {
				t.Errorf("its history: %v", err)
			}
		}
		if err := s.records.Remove(t.Context(), id); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("again: %v", err)
		}
		s.must(e.WaitFor(t.Context(), "fulfilment", s.append("x", poked{"1"}))) // for a saga that is not there
		testkit.Eventually(t, "the event to be counted", func() bool { return e.Stats()[0].Early == 1 })
		if i := s.get("1"); i.ID != "" {
			t.Errorf("an event for the removed one: %+v", i)
		}
		s.append("1", placed{"book"})
		i := s.until("1", saga.Completed)
		if got := s.did("1"); got != "Charge=2 Ship=2" || i.Sent != 4 {
			t.Errorf("the second saga with the key has sent up to %d, and %s took effect", i.Sent, got)
		}
		for e, err := range s.records.History(t.Context(), id) {
			s.must(err)
			for _, c := range e.Sent {
				if c.ID == "fulfilment/1/1" || c.ID == "fulfilment/1/2" {
					t.Errorf("the ID %s comes again", c.ID)
				}
			}
		}
		s.consistent()
	})
}

// A completed saga with a waiting command has not ended.
func TestRemoveWithCommandsLeft(t *testing.T) {
	s := newShop(t, testengines.Memory(t))
	def, err := saga.New[state]("hasty", saga.Sends[charge](), saga.StartOn(saga.StreamKey[placed], func(c *saga.Context[state], _ placed) error {
		c.Dispatch(charge{Order: c.Key()})
		c.Complete()
		return nil
	}))
	s.must(err)
	e, err := saga.Open(s.store, s.types, s.bus, &saga.Options{Logger: quiet.Logger, Backoff: time.Millisecond, MaxBackoff: time.Millisecond})
	s.must(errors.Join(err, e.Register(def, nil)))
	s.closed.Store(true)
	s.must(e.Start(t.Context()))
	defer s.stop(e)
	s.must(e.WaitFor(t.Context(), "hasty", s.append("1", placed{"book"})))
	if err := s.records.Remove(t.Context(), "hasty-1"); !errors.Is(err, saga.ErrNotEnded) {
		t.Errorf("with a command left: %v", err)
	}
	for i, err := range s.records.Prune(t.Context(), nil) {
		t.Errorf("pruned %+v, %v", i, err)
	}
	s.closed.Store(false)
	testkit.Succeeds(t, "it to be removed when the command is carried out", func() error { return s.records.Remove(t.Context(), "hasty-1") })
	if got := s.did("1"); got != "Charge=1" {
		t.Errorf("%s took effect", got)
	}
}

// Prune removes the sagas of the given statuses and age, and no others.
func TestPrune(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		s := newShop(t, log)
		began := time.Now()
		s.start(nil, nil)
		for order, item := range map[string]string{"1": "book", "2": "book", "3": broke, "4": withheld, "5": unpaid} {
			s.append(order, placed{item})
		}
		for order, end := range map[string]saga.Status{"1": saga.Completed, "2": saga.Completed, "3": saga.Compensated, "4": saga.Failed, "5": saga.Started} {
			s.until(order, end)
		}
		prune := func(o *saga.PruneOptions) string {
			var keys []string
			for i, err := range s.records.Prune(t.Context(), o) {
				s.must(err)
				keys = append(keys, i.Key)
			}
			return strings.Join(keys, " ")
		}
		for _, c := range []struct {
			o    saga.PruneOptions
			want string
		}{
			{saga.PruneOptions{Before: began}, ""},
			{saga.PruneOptions{Saga: "fulfil"}, ""},
			{saga.PruneOptions{DryRun: true}, "1 2 3"},
			{saga.PruneOptions{DryRun: true, Limit: 2}, "1 2"},
			{saga.PruneOptions{Saga: "fulfilment", Limit: 1}, "1"},
			{saga.PruneOptions{}, "2 3"},
			{saga.PruneOptions{Statuses: []saga.Status{saga.Failed, saga.CompensationFailed}}, "4"},
		} {
			if got := prune(&c.o); got != c.want {
				t.Errorf("%+v removed %q, want %q", c.o, got, c.want)
			}
		}
		for what, o := range map[string]saga.PruneOptions{
			"running": {Statuses: []saga.Status{saga.Running}}, "compensating": {Statuses: []saga.Status{saga.Compensating}},
			"no status": {Statuses: []saga.Status{"x"}}, "limit": {Limit: -1},
		} {
			for _, err := range s.records.Prune(t.Context(), &o) {
				if !errors.Is(err, mainstem.ErrInvalid) {
					t.Errorf("%s: %v, want Invalid", what, err)
				}
			}
		}
		if i := s.get("5"); i.Status != saga.Started {
			t.Errorf("the one under way is %+v", i)
		}
		s.consistent()
	})
}

// Removal beside start events with the same keys, retries and other removals: no running saga is
// removed, and the commands of new sagas are carried out.
func TestRemoveBesideAll(t *testing.T) {
	s := newShop(t, testengines.Memory(t))
	s.start(nil, nil)
	const orders, rounds = 5, 8
	ended := make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for {
				for _, err := range s.records.Prune(t.Context(), &saga.PruneOptions{Statuses: []saga.Status{saga.Completed}}) {
					if err != nil {
						t.Error(err)
					}
				}
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	for round := 1; round <= rounds; round++ {
		for order := range orders {
			s.append(fmt.Sprint(order), placed{"book"})
			testkit.Eventually(t, "the order to be carried out once more", func() bool {
				return s.did(fmt.Sprint(order)) == fmt.Sprintf("Charge=%d Ship=%d", round, round)
			})
			testkit.Eventually(t, "the saga to be removed", func() bool { return s.get(fmt.Sprint(order)).ID == "" })
		}
	}
	close(ended)
	others.Wait()
	s.consistent()
	for _, table := range []string{"saga/shop", "saga.status/shop", "saga.inbox/shop", "saga.timer/shop"} {
		b, err := kv.Open[[]byte](s.log, table, nil)
		s.must(err)
		if n, err := b.Count(t.Context(), nil); n != 0 || err != nil {
			t.Errorf("%d rows are left in %s, %v", n, table, err)
		}
	}
}

// An engine removes sagas that ended longer ago than Follow.Keep, and failed ones only by
// Follow.KeepFailed.
func TestKeep(t *testing.T) {
	inBubble(t, func(t *testing.T, s *shop) {
		e := s.start(nil, &saga.Follow{Keep: 10 * time.Hour, KeepFailed: 100 * time.Hour})
		for order, item := range map[string]string{"1": "book", "2": broke, "3": withheld} {
			s.append(order, placed{item})
		}
		synctest.Wait()
		left := func() string {
			var keys []string
			for i, err := range s.records.Find(t.Context(), "fulfilment") {
				s.must(err)
				keys = append(keys, i.Key)
			}
			slices.Sort(keys)
			return strings.Join(keys, " ")
		}
		for _, step := range []struct {
			after time.Duration
			left  string
		}{{9 * time.Hour, "1 2 3"}, {3 * time.Hour, "3"}, {86 * time.Hour, "3"}, {4 * time.Hour, ""}} {
			pass(step.after)
			synctest.Wait()
			if got := left(); got != step.left {
				t.Errorf("%v later there are %q, want %q", step.after, got, step.left)
			}
		}
		if n := e.Stats()[0].Removed; n != 3 {
			t.Errorf("%d were removed", n)
		}
	})
	s := newShop(t, testengines.Memory(t))
	if _, err := s.tryStart(nil, &saga.Follow{Keep: -1}); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a negative time to stay: %v", err)
	}
}
