package event_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// each runs body on an empty store of every engine.
func each(t *testing.T, body func(t *testing.T, log mainstem.Log, s *event.Store), opts ...testengines.Option) {
	t.Helper()
	testengines.Each(t, func(t *testing.T, log mainstem.Log) { body(t, log, open(t, log, nil)) }, opts...)
}

// checkAndClose ends a test of the embedded engine: whatever the store did, the log
// must be consistent.
func checkAndClose(t testing.TB, log *pebblelog.Log) {
	t.Helper()
	_, err := log.Check(context.Background(), func(p mainstem.Problem) { t.Errorf("check: %s: %s", p.Where, p.What) })
	if err != nil && !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("check: %v", err)
	}
	if err := log.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func open(t testing.TB, log mainstem.Log, o *event.Options) *event.Store {
	t.Helper()
	s, err := event.Open(log, "orders", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// some returns n events of type typ whose data counts from "0".
func some(typ string, n int) []event.Event {
	evs := make([]event.Event, n)
	for i := range evs {
		evs[i] = event.Event{Type: typ, Data: fmt.Appendf(nil, "%d", i)}
	}
	return evs
}

// identified gives every event an ID.
func identified(evs []event.Event) []event.Event {
	for i := range evs {
		evs[i].ID = event.NewID()
	}
	return evs
}

func write(t testing.TB, s *event.Store, stream string, expected event.Expected, evs []event.Event) event.Appended {
	t.Helper()
	a, err := s.Append(t.Context(), stream, expected, evs)
	if err != nil {
		t.Fatalf("write %d events to %s: %v", len(evs), stream, err)
	}
	return a
}

func do(t testing.TB, s *event.Store, fill func(b *mainstem.Batch)) mainstem.Receipt {
	t.Helper()
	r, err := s.Do(t.Context(), fill)
	if err != nil {
		t.Fatalf("do: %v", err)
	}
	return r
}

func load(t testing.TB, s *event.Store, stream string, o *event.LoadOptions) []event.Recorded {
	t.Helper()
	evs, err := s.Load(t.Context(), stream, o)
	if err != nil {
		t.Fatalf("load %s: %v", stream, err)
	}
	return evs
}

func versions(evs []event.Recorded) []mainstem.Version {
	out := []mainstem.Version{}
	for _, ev := range evs {
		out = append(out, ev.Version)
	}
	return out
}

func collect[T any](t testing.TB, seq func(func(T, error) bool)) []T {
	t.Helper()
	out := []T{}
	seq(func(v T, err error) bool {
		if err != nil {
			t.Fatal(err)
		}
		if ev, ok := any(v).(event.Recorded); ok { // its bytes are lent
			v = any(ev.Clone()).(T)
		}
		out = append(out, v)
		return true
	})
	return out
}

// within returns a context that ends when the test hangs.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func wantKind(t testing.TB, err error, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v: want %v", err, want)
	}
}

func wantEqual[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
