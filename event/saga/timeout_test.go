package saga_test

import (
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/saga"
)

// inBubble runs a test in virtual time, on the model, in which nothing runs in the background.
func inBubble(t *testing.T, test func(t *testing.T, s *shop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		defer log.Close()
		s := newShop(t, log)
		test(t, s)
		for _, e := range s.running {
			s.stop(e)
		}
	})
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// A timeout comes when it is due, not before, and once.
func TestTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, s *shop) {
		e := s.start(nil, nil)
		s.append("1", placed{unpaid})
		pass(patience - time.Millisecond)
		synctest.Wait()
		if i := s.get("1"); i.Status != saga.Started || len(i.Timeouts) != 1 || s.did("1") != "Charge=1" {
			t.Errorf("before it is due the saga is %+v, and %s took effect", i, s.did("1"))
		}
		pass(2 * time.Millisecond)
		synctest.Wait()
		if i := s.get("1"); i.Status != saga.Compensated || i.Error != "not paid in time" || s.did("1") != "Cancel=1 Charge=1" {
			t.Errorf("when it is due the saga is %+v, and %s took effect", i, s.did("1"))
		}
		pass(24 * time.Hour)
		synctest.Wait()
		if got := s.steps("1"); got != "Started TimedOut Compensated" || e.Stats()[0].Timeouts != 1 {
			t.Errorf("the history is %s, and %d timeouts came", got, e.Stats()[0].Timeouts)
		}
		s.consistent()
	})
}

// A timeout that is overdue when an engine starts comes at once, after the events that were there.
func TestOverdueTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, s *shop) {
		e := s.start(nil, nil)
		s.append("1", placed{unpaid})
		s.append("2", placed{unpaid})
		synctest.Wait()
		s.stop(e)
		s.append("2", charged{995})
		pass(10 * patience)
		began := time.Now()
		s.start(nil, nil)
		s.until("1", saga.Compensated)
		s.until("2", saga.Completed)
		if d := time.Since(began); d > time.Second {
			t.Errorf("they came after %v", d)
		}
		if s.did("1") != "Cancel=1 Charge=1" || s.did("2") != "Charge=1 Ship=1" {
			t.Errorf("%s and %s took effect", s.did("1"), s.did("2"))
		}
		s.consistent()
	})
}

// A timeout that is set again is replaced; one whose handler fails is tried again, and fails the
// saga in the end; one of another name is not touched.
func TestTimeoutsOfOneSaga(t *testing.T) {
	inBubble(t, func(t *testing.T, s *shop) {
		began := time.Now()
		var came []string
		tries := 0
		def, err := saga.New[state]("many",
			saga.StartOn(saga.StreamKey[placed], func(c *saga.Context[state], _ placed) error {
				c.Timeout("replaced", time.Minute)
				c.Timeout("failing", time.Hour)
				return nil
			}),
			saga.On(func(ev poked, _ event.Recorded) string { return ev.Order }, func(c *saga.Context[state], _ poked) error {
				c.Timeout("replaced", 2*time.Minute)
				return nil
			}),
			saga.OnTimeout("replaced", func(c *saga.Context[state]) error {
				if c.Event().Type != "" || !c.Now().Equal(time.Now()) {
					t.Errorf("the timeout comes with event %+v at %v", c.Event(), c.Now())
				}
				came = append(came, time.Since(began).Round(time.Second).String())
				return nil
			}),
			saga.OnTimeout("failing", func(*saga.Context[state]) error {
				if tries++; tries == 2 {
					panic("no way")
				}
				return errors.New("no way")
			}))
		s.must(err)
		e, err := saga.Open(s.store, s.types, s.bus, &saga.Options{Attempts: 3, Logger: slog.New(slog.DiscardHandler)})
		s.must(err)
		s.must(e.Register(def, nil))
		s.must(e.Start(t.Context()))
		defer s.stop(e)
		s.append("1", placed{"book"})
		pass(30 * time.Second)
		s.append("x", poked{"1"})
		pass(2 * time.Hour)
		synctest.Wait()
		if got := strings.Join(came, " "); got != "2m30s" {
			t.Errorf("the replaced timeout came after %s", got)
		}
		i, err := s.records.Get(t.Context(), saga.ID("many", "1"))
		if err != nil || i.Status != saga.Failed || i.Error != "no way" || tries != 3 {
			t.Errorf("after %d tries the saga is %+v, %v", tries, i, err)
		}
		s.must(e.Retry(t.Context(), i.ID)) // the timeout again, at once
		pass(time.Minute)
		synctest.Wait()
		if i, err := s.records.Get(t.Context(), i.ID); err != nil || i.Status != saga.Failed || tries != 6 {
			t.Errorf("after %d tries the saga is %+v, %v", tries, i, err)
		}
	})
}

// A conflict that the handler of a timeout returns counts as an attempt, also after Retry: the saga
// fails in the end, later timeouts come, and the engine can be stopped.
func TestConflictInTheHandlerOfATimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, s *shop) {
		tries := map[string]int{}
		def, err := saga.New[state]("conflict",
			saga.StartOn(saga.StreamKey[placed], func(c *saga.Context[state], _ placed) error {
				c.Timeout("soon", time.Second)
				return nil
			}),
			saga.OnTimeout("soon", func(c *saga.Context[state]) error {
				if tries[c.Key()]++; c.Key() == "1" {
					return mainstem.Refusef(mainstem.KindConflict, "test", "not now")
				}
				c.Complete()
				return nil
			}))
		s.must(err)
		e, err := saga.Open(s.store, s.types, s.bus, &saga.Options{Attempts: 3, Logger: slog.New(slog.DiscardHandler)})
		s.must(err)
		s.must(e.Register(def, nil))
		s.must(e.Start(t.Context()))
		defer s.stop(e)
		check := func(calls int, failures uint64) {
			t.Helper()
			pass(time.Minute)
			synctest.Wait()
			i, err := s.records.Get(t.Context(), saga.ID("conflict", "1"))
			if err != nil || i.Status != saga.Failed || i.Error == "" || tries["1"] != calls || e.Stats()[0].Failures != failures {
				t.Errorf("after %d calls and %d failures the saga is %+v, %v", tries["1"], e.Stats()[0].Failures, i, err)
			}
		}
		s.append("1", placed{"book"})
		s.append("2", placed{"book"})
		check(3, 3)
		if i, err := s.records.Get(t.Context(), saga.ID("conflict", "2")); err != nil || i.Status != saga.Completed || tries["2"] != 1 {
			t.Errorf("after %d calls the other saga is %+v, %v", tries["2"], i, err)
		}
		s.must(e.Retry(t.Context(), saga.ID("conflict", "1")))
		check(6, 5) // the last one is a refusal
	})
}

// Retry of a failed saga sets the timeouts again that the failure has cancelled, with the time that
// was left.
func TestTimeoutAfterRetry(t *testing.T) {
	inBubble(t, func(t *testing.T, s *shop) {
		def, err := saga.New[state]("fulfilment",
			saga.StartOn(saga.StreamKey[placed], func(c *saga.Context[state], _ placed) error {
				c.Timeout("payment", patience)
				return nil
			}),
			saga.On(func(ev poked, _ event.Recorded) string { return ev.Order }, func(c *saga.Context[state], _ poked) error {
				c.Dispatch(charge{Order: c.Key()})
				return nil
			}),
			saga.OnTimeout("payment", func(c *saga.Context[state]) error {
				c.Fail(errors.New("not paid in time"))
				return nil
			}),
			saga.Sends[charge]())
		s.must(err)
		e, err := saga.Open(s.store, s.types, s.bus, quiet)
		s.must(err)
		s.must(e.Register(def, nil))
		s.must(e.Start(t.Context()))
		defer s.stop(e)
		s.append("1", placed{broke})
		pass(patience / 3)
		s.append("x", poked{"1"})
		if i := s.until("1", saga.Failed); len(i.Timeouts) != 0 {
			t.Errorf("a failed saga has timeouts: %+v", i)
		}
		s.repaired.Store(true)
		pass(10 * patience)
		s.must(e.Retry(t.Context(), saga.ID("fulfilment", "1")))
		pass(patience/3*2 - time.Second)
		synctest.Wait()
		if i := s.get("1"); i.Status != saga.Running || len(i.Timeouts) != 1 || s.did("1") != "Charge=1" {
			t.Errorf("before it is due the saga is %+v, and %s took effect", i, s.did("1"))
		}
		s.consistent()
		pass(2 * time.Second)
		synctest.Wait()
		if i := s.get("1"); i.Status != saga.Failed || i.Error != "not paid in time" {
			t.Errorf("when it is due the saga is %+v", i)
		}
		s.consistent()
	})
}

// A timeout that is due later than its key can hold stays pending until it is replaced or cancelled.
func TestTimeoutInTheFarFuture(t *testing.T) {
	inBubble(t, func(t *testing.T, s *shop) {
		def, err := saga.New[state]("far",
			saga.StartOn(saga.StreamKey[placed], func(c *saga.Context[state], _ placed) error {
				c.Timeout("never", math.MaxInt64)
				return nil
			}),
			saga.On(saga.StreamKey[charged], func(c *saga.Context[state], _ charged) error {
				c.Timeout("never", math.MaxInt64-time.Hour)
				return nil
			}),
			saga.On(saga.StreamKey[shipped], func(c *saga.Context[state], _ shipped) error {
				c.CancelTimeout("never")
				return nil
			}),
			saga.OnTimeout("never", func(*saga.Context[state]) error { return nil }))
		s.must(err)
		e, err := saga.Open(s.store, s.types, s.bus, quiet)
		s.must(err)
		s.must(e.Register(def, nil))
		s.must(e.Start(t.Context()))
		defer s.stop(e)
		for i, ev := range []any{placed{"book"}, charged{995}, shipped{}} {
			s.append("1", ev)
			pass(24 * time.Hour)
			synctest.Wait()
			want := uint64(1)
			if i == 2 {
				want = 0
			}
			o, err := s.records.Overview(t.Context(), "far")
			if err != nil || o.Timeouts != want || !o.Waiting.IsZero() || e.Stats()[0].Timeouts != 0 {
				t.Errorf("after %T the overview is %+v, %v, and %d timeouts came", ev, o, err, e.Stats()[0].Timeouts)
			}
			s.consistent()
		}
	})
}

// A forbidden call of a handler fails its step.
func TestMisuseOfTheContext(t *testing.T) {
	for want, do := range map[string]func(c *saga.Context[state]){
		"has no handler":                 func(c *saga.Context[state]) { c.Timeout("none", 1) },
		"want 0 or more":                 func(c *saga.Context[state]) { c.Timeout("payment", -1) },
		"declare it with saga.Sends":     func(c *saga.Context[state]) { c.Dispatch(poke{}) },
		"the command is nil":             func(c *saga.Context[state]) { c.Compensate(nil) },
		"the handler panicked: whatever": func(*saga.Context[state]) { panic("whatever") },
	} {
		def, err := newFulfilment("misuse", saga.StartOn(saga.StreamKey[undone], func(c *saga.Context[state], _ undone) error {
			do(c)
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = saga.Simulate(def, time.Now()).Handle(undone{}, event.Recorded{Stream: "order-1"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
	def, err := newFulfilment("misuse")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{strings.Repeat("k", saga.MaxKey+1), "a\x00b"} {
		if _, err := saga.Simulate(def, time.Now()).Handle(placed{}, event.Recorded{Stream: "order-" + key}); err == nil {
			t.Errorf("the key %.10q… is taken", key)
		}
	}
}
