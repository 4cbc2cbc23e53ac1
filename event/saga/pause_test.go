package saga_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/saga"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/kv"
	"github.com/mainstemdev/mainstem/lease"
)

// After Pause has returned, in any process, nothing of the type is committed until Resume: no event
// is handled, and no command is carried out.
func TestPause(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		s := newShop(t, log)
		if err := s.records.Pause(t.Context(), "fulfilment"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("pause of what has never run: %v", err)
		}
		var held sync.Mutex // while it is, a command of order 2 is under way
		var called atomic.Int64
		s.before = func(_ context.Context, _, order string) error {
			if order == "2" {
				called.Add(1)
				held.Lock()
				defer held.Unlock()
			}
			return nil
		}
		engines := []*saga.Engine{s.start(nil, nil), newShop(t, log).startLike(s)}
		s.append("1", placed{"book"})
		s.until("1", saga.Completed)
		held.Lock()
		s.append("2", placed{"book"})
		testkit.Eventually(t, "a command is being carried out", func() bool { return called.Load() > 0 })
		s.must(s.records.Pause(t.Context(), "fulfilment"))
		s.must(s.records.Pause(t.Context(), "fulfilment"))
		before, err := s.store.Checkpoint(t.Context(), "saga/fulfilment")
		s.must(err)
		held.Unlock() // its handler returns, and its commit fails
		last := s.append("3", placed{"book"})
		for _, e := range engines {
			testkit.Eventually(t, "the engine to see it", func() bool { return e.Stats()[0].Paused })
		}
		third := newShop(t, log).startLike(s) // one that starts now is paused too
		testkit.Eventually(t, "the engine to see it", func() bool { return third.Stats()[0].Paused })
		if now, err := s.store.Checkpoint(t.Context(), "saga/fulfilment"); err != nil || now.Position != before.Position || s.did("2") != "" || s.get("3").ID != "" {
			t.Errorf("it went on from %d to %d, %v; %s took effect", before.Position, now.Position, err, s.did("2"))
		}
		o, err := s.records.Overview(t.Context(), "fulfilment")
		if err != nil || o.Paused.IsZero() || o.Commands != 1 || o.Lag != 1 || o.Waiting.IsZero() {
			t.Errorf("the overview is %+v, %v", o, err)
		}
		s.must(s.records.Resume(t.Context(), "fulfilment"))
		s.must(s.records.Resume(t.Context(), "fulfilment"))
		s.must(engines[0].WaitFor(t.Context(), "fulfilment", last))
		for _, order := range []string{"2", "3"} {
			s.until(order, saga.Completed)
			if got := s.did(order); got != "Charge=1 Ship=1" {
				t.Errorf("order %s: %s took effect", order, got)
			}
		}
		s.consistent()
	})
}

// A commit that fails because the type was paused and resumed meanwhile is no attempt of its command, also if other work
// has gone on under the new control record before the failure is seen.
func TestResumedBeforeTheConflict(t *testing.T) {
	s := newShop(t, testengines.Memory(t))
	prepared, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := func(next command.Handler) command.Handler {
		return func(ctx context.Context, cmd command.Command) (command.Result, error) {
			if c, ok := cmd.(charge); ok && c.Order == "1" {
				command.BeforeCommit(ctx, func(ctx context.Context, _ *mainstem.Batch, _ *command.Result) error {
					once.Do(func() { // the batch has the condition on the control record already
						close(prepared)
						select {
						case <-goOn:
						case <-ctx.Done():
						}
					})
					return nil
				})
			}
			return next(ctx, cmd)
		}
	}
	s.openBus(slow) // without Retry
	s.start(&saga.Options{Attempts: 1}, nil)
	s.append("1", placed{"book"})
	<-prepared
	// One write of the record is what a reader sees that comes only after a pause and a resumption.
	controls, err := kv.Open[struct{}](s.log, "saga.control/shop", nil)
	s.must(err)
	_, err = controls.Put(t.Context(), "fulfilment", struct{}{})
	s.must(err)
	s.append("2", placed{"book"})
	s.until("2", saga.Completed)
	close(goOn)
	testkit.Eventually(t, "order 1 to end", func() bool {
		status := s.get("1").Status
		return status == saga.Completed || status == saga.Compensated
	})
	if got := s.steps("1"); got != "Started Handled Handled" {
		t.Errorf("the history is %s", got)
	}
	s.consistent()
}

// Work that is under way when types are paused and resumed, again and again, takes effect once;
// with leases too.
func TestPauseAtAnyTime(t *testing.T) {
	for _, leased := range []bool{false, true} {
		t.Run(fmt.Sprint("leased ", leased), func(t *testing.T) {
			s := newShop(t, testengines.Memory(t))
			for i := range 2 {
				o := &saga.Options{Attempts: 3}
				if leased {
					k, err := lease.Open(t.Context(), s.log, lease.Member{Name: fmt.Sprint("node", i), Start: 1}, &lease.Options{Bucket: "test/leases", TTL: 2 * time.Second})
					s.must(err)
					t.Cleanup(func() { s.must(k.Close(context.Background())) })
					o.Keeper = k
				}
				newShop(t, s.log).start(o, nil)
			}
			ended := make(chan struct{})
			var pauses sync.WaitGroup
			pauses.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-ended:
						return
					default:
					}
					err := s.records.Pause(t.Context(), "fulfilment")
					if err == nil {
						err = s.records.Resume(t.Context(), "fulfilment")
					}
					if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
						t.Error(err)
					}
					progress := s.head()
					testkit.Eventually(t, "something to be done between two pauses", func() bool {
						select {
						case <-ended:
							return true
						default:
							return s.head() != progress
						}
					})
				}
			})
			s.runMany(20)
			close(ended)
			pauses.Wait()
		})
	}
}

// Timeouts go on counting while a type is paused: those that are due come at once when it is resumed, after the events that
// are there then.
func TestTimeoutsWhilePaused(t *testing.T) {
	inBubble(t, func(t *testing.T, s *shop) {
		s.start(nil, nil)
		s.append("1", placed{unpaid})
		s.append("2", placed{unpaid})
		synctest.Wait()
		s.must(s.records.Pause(t.Context(), "fulfilment"))
		pass(10 * patience)
		synctest.Wait()
		if a, b := s.get("1"), s.get("2"); a.Status != saga.Started || b.Status != saga.Started {
			t.Errorf("while it is paused the sagas are %s and %s", a.Status, b.Status)
		}
		o, err := s.records.Overview(t.Context(), "fulfilment")
		if late := time.Since(o.Waiting); err != nil || o.Timeouts != 2 || late != 9*patience {
			t.Errorf("the overview is %+v, %v: the oldest waits for %v", o, err, late)
		}
		s.append("2", charged{995})
		s.must(s.records.Resume(t.Context(), "fulfilment"))
		began := time.Now()
		s.until("1", saga.Compensated)
		s.until("2", saga.Completed)
		if d := time.Since(began); d > time.Second {
			t.Errorf("they came after %v", d)
		}
		s.consistent()
	})
}
