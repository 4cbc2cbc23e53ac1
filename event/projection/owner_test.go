package projection_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestProjectionOfASubscription(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		f := newFixtureOn(t, log)
		e, err := projection.Open(f.store, f.types, &projection.Options{Logger: discard})
		if err != nil {
			t.Fatal(err)
		}
		p, err := projection.New("totals", 1, event.Filter{}, projection.On(func(context.Context, *projection.Tx, paid, event.Recorded) error { return nil }))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(e.Register(p, nil), e.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "it is started", func() bool {
			name, err := e.ProjectionOf(t.Context(), "totals")
			return err == nil && name != ""
		})
		if err := e.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"totals": "totals", "totals#0": "totals", "totals@v2": "totals", "totals@v2#17": "totals", "total": "", "totals2": "", "saga/totals": "", "#0": "", "": "",
		} {
			if got, err := e.ProjectionOf(t.Context(), name); err != nil || got != want {
				t.Errorf("%q: %q, %v; want %q", name, got, err, want)
			}
		}
	})
}
