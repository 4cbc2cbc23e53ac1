package event

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
)

const reserved, kept = 1 << 20, 20_000

// reserves is a store that has a large file while it is open, and a small one when it is closed.
type reserves struct {
	*mapStore
	name string
}

func (s *reserves) Close() error { return os.WriteFile(s.name, make([]byte, kept), 0o600) }

// TestDiskAtRest: what counts is what a store leaves when it is closed, for the events of one
// round, also if it could not be opened again.
func TestDiskAtRest(t *testing.T) {
	f := Factory{Name: "mine", Durability: suite.OS, Open: func(_ context.Context, _ *suite.Env, dir string) (Store, error) {
		name := filepath.Join(dir, "file")
		return &reserves{newMapStore(), name}, os.WriteFile(name, make([]byte, reserved), 0o600)
	}}
	diskRounds(t, f, float64(kept)/(2*diskPerBatch))
}

// sizer is a store that knows what it takes, so much for each event.
type sizer struct{ *mapStore }

func (s *sizer) DiskBytes(context.Context) (int64, error) { return int64(7 * s.last), nil }

// TestDiskOfASizer: a store that says itself what it takes stays as it is.
func TestDiskOfASizer(t *testing.T) {
	f := factory(func() Store { return &sizer{newMapStore()} })
	f.Durability = suite.OS
	diskRounds(t, f, 7)
}

// diskRounds does three rounds of two appends of the case disk, which want bytes for an event.
func diskRounds(t *testing.T, f Factory, want float64) {
	t.Helper()
	entries := Entries(f)
	i := slices.IndexFunc(entries, func(e suite.Entry) bool { return e.Case == "disk" })
	if i < 0 {
		t.Fatal("there is no such case")
	}
	round, err := entries[i].Start(t.Context(), runnertest.Env(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if values := measured(t, round, 2); len(values) != 1 || values[0].Value != want {
			t.Errorf("round %d: %v, want %v bytes", i, values, want)
		}
	}
	if err := round.Close(); err != nil {
		t.Error(err)
	}
}

// measured does a round of n operations.
func measured(t *testing.T, round *suite.Round, n int) []suite.Metric {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(round.Prepare(t.Context(), n))
	must(round.Run(t.Context(), n, suite.NewRecorder(1)))
	must(round.Check(t.Context()))
	values, err := round.Metrics(t.Context())
	must(err)
	return values
}
