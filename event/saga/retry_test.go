package saga_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/saga"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/lease"
)

// holdMessages returns options of an engine that handles events and no messages, until release is
// called, however long that takes.
func (s *shop) holdMessages() (o *saga.Options, release func()) {
	s.t.Helper()
	k, err := lease.Open(s.t.Context(), s.log, lease.Member{Name: "node", Start: 1}, &lease.Options{Bucket: "test/leases", TTL: lease.MaxTTL})
	s.must(err)
	s.t.Cleanup(func() { s.must(k.Close(context.Background())) })
	l, err := k.Acquire(s.t.Context(), "saga/shop/fulfilment", "")
	s.must(err)
	return &saga.Options{Keeper: k, Attempts: 2}, func() { s.must(l.Release(s.t.Context())) }
}

// An event that arrives after the retry of a compensated saga, and before its start event is
// handled again, is handled after the start event.
func TestEventAfterRetryFromTheStart(t *testing.T) {
	s := newShop(t, testengines.Memory(t))
	first := s.start(nil, nil)
	s.append("1", placed{broke})
	i := s.until("1", saga.Compensated)
	s.stop(first)
	s.repaired.Store(true)
	o, release := s.holdMessages()
	e := s.start(o, nil)
	s.must(s.records.Retry(t.Context(), i.ID))
	s.append("x", poked{"1"})
	s.must(e.WaitFor(t.Context(), "fulfilment", s.append("x", poked{"1"})))
	i = s.get("1")
	st, err := saga.StateOf[state](i)
	s.must(err)
	if st.Item != broke || st.Pokes != 2 || i.Status != saga.Running || len(i.Compensations) != 1 {
		t.Errorf("after the events the saga is %+v, with state %+v", i, st)
	}
	if got := s.steps("1"); got != "Started Refused Compensated Retried Started Handled Handled" {
		t.Errorf("the history is %s", got)
	}
	if view, err := s.records.Overview(t.Context(), "fulfilment"); err != nil || view.Commands != 1 {
		t.Errorf("%d messages wait, %v: want the command only", view.Commands, err)
	}
	release()
	s.until("1", saga.Completed)
	if got := s.did("1"); got != "Cancel=1 Charge=1 Ship=1" {
		t.Errorf("%s took effect", got)
	}
	s.consistent()
}

// If the start event of a retried saga cannot be handled again, the saga fails, and the events that
// wait for it are not poison.
func TestEventAfterRetryThatFails(t *testing.T) {
	s := newShop(t, testengines.Memory(t))
	var fails bool // changed while no engine runs
	more := saga.StartOn(func(ev poked, _ event.Recorded) string { return ev.Order }, func(c *saga.Context[*state], _ poked) error {
		if fails {
			return errors.New("no way")
		}
		c.Compensate(&cancel{Order: c.Key()})
		c.Fail(errors.New("not this time"))
		return nil
	})
	on := saga.On(saga.StreamKey[charged], func(*saga.Context[*state], charged) error { return nil })
	def, err := saga.New[*state]("fulfilment", more, on, saga.Sends[*cancel]())
	s.must(err)
	run := func(o *saga.Options) *saga.Engine {
		o.Logger, o.Backoff, o.MaxBackoff = quiet.Logger, 1, 1
		e, err := saga.Open(s.store, s.types, s.bus, o)
		s.must(err)
		s.must(e.Register(def, &saga.Follow{Attempts: 1, Backoff: 1, MaxBackoff: 1}))
		s.must(e.Start(t.Context()))
		s.t.Cleanup(func() { s.stop(e) })
		return e
	}
	e := run(&saga.Options{})
	s.append("x", poked{"1"})
	i := s.until("1", saga.Compensated)
	s.stop(e)
	fails = true
	o, release := s.holdMessages()
	e = run(o)
	s.must(s.records.Retry(t.Context(), i.ID))
	last := s.append("1", charged{995})
	testkit.Eventually(t, "the event was tried", func() bool { return e.Stats()[0].Failures > 1 })
	release()
	s.must(e.WaitFor(t.Context(), "fulfilment", last))
	if i := s.get("1"); i.Status != saga.Failed || i.Error != "no way" || i.Ignored != 1 || e.Stats()[0].Err != nil {
		t.Errorf("the saga is %+v, and the subscription has ended with %v", i, e.Stats()[0].Err)
	}
	s.consistent()
}
