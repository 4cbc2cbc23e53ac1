package event

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rounds does two rounds of an entry.
func rounds(t *testing.T, e suite.Entry) error {
	t.Helper()
	return runnertest.Try(t, &e, 2, 20)
}

func TestHonest(t *testing.T) {
	entries := Entries(factory(func() Store { return newMapStore() }))
	if len(entries) < 30 {
		t.Fatalf("%d entries", len(entries))
	}
	for _, e := range entries {
		if e.Skip(&suite.Env{}) != "" {
			continue
		}
		t.Run(e.Case, func(t *testing.T) {
			if err := rounds(t, e); err != nil {
				t.Error(err)
			}
		})
	}
}

// inFiles are the cases that look at files.
var inFiles = []string{"cold", "recovery", "disk"}

func TestRestarts(t *testing.T) {
	honest := restarting(func(s *mapStore) Store { return s })
	for _, e := range Entries(honest) {
		if slices.Contains(inFiles, e.Case) {
			if err := rounds(t, e); err != nil {
				t.Error(err)
			}
		}
	}
	cheat := restarting(func(s *mapStore) Store { return &forgets{s} })
	for _, e := range Entries(cheat) {
		if e.Case == "cold" || e.Case == "recovery" {
			if err := rounds(t, e); err == nil {
				t.Errorf("%s: a store that keeps nothing passed the check", e.Case)
			}
		}
	}
}

func TestCheatsAreCaught(t *testing.T) {
	patience = 100 * time.Millisecond
	t.Cleanup(func() { patience = 30 * time.Second })
	for _, c := range cheats {
		for _, e := range Entries(factory(c.open)) {
			if !slices.Contains(c.cases, e.Case) {
				continue
			}
			t.Run(c.name+"/"+e.Case, func(t *testing.T) {
				if err := rounds(t, e); err == nil {
					t.Error("a store that cheats passed the check")
				} else {
					t.Log(err)
				}
			})
		}
	}
}

func TestSkips(t *testing.T) {
	f := factory(func() Store { return struct{ Store }{newMapStore()} })
	f.Lacks = map[string]string{"info/stream": "no", "load": "no"}
	var skipped []string
	for _, e := range Entries(f) {
		if e.Skip(&suite.Env{}) != "" {
			skipped = append(skipped, e.Case)
		} else if e.Case == "subscribe" || e.Case == "feed/catch-up" {
			if err := rounds(t, e); err == nil {
				t.Errorf("%s of a store that has no subscriptions", e.Case)
			}
		}
	}
	want := []string{"load/10", "load/100", "load/1000", "load/10000", "load/1000-from-501", "info/stream", "cold", "recovery", "disk"}
	if !slices.Equal(skipped, want) {
		t.Errorf("skipped %v, want %v", skipped, want)
	}
}

// TestPayloads pins the bytes that all contenders append.
func TestPayloads(t *testing.T) {
	if len(small.Data) != 61 {
		t.Errorf("a small event has %d bytes", len(small.Data))
	}
	for n, want := range map[int]int{10: 429, 100: 4569, 1000: 48669} {
		sum := 0
		for _, e := range batch(n) {
			sum += len(e.Data)
		}
		if sum != want {
			t.Errorf("%d events have %d bytes, want %d", n, sum, want)
		}
	}
}

// TestScaleTestsCountAll: of so many streams that only some are read back, one that is
// missing is missed.
func TestScaleTestsCountAll(t *testing.T) {
	const events = mostCounted + 100
	for name, open := range map[string]func() Store{
		"honest": func() Store { return newMapStore() }, "loses one": func() Store { return &losesOne{newMapStore()} },
	} {
		f := factory(open)
		f.ScaleEvents = events
		for _, e := range Entries(f) {
			if e.Case != "scale/sequential" && e.Case != "scale/concurrent-8" {
				continue
			}
			err := suite.Try(t.Context(), &e, &suite.Env{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}, 1, events)
			if (err == nil) != (name == "honest") {
				t.Errorf("%s, %s: %v", e.Case, name, err)
			}
		}
	}
}

// TestScaleTestsHaveACurve: those of several clients too.
func TestScaleTestsHaveACurve(t *testing.T) {
	f := factory(func() Store { return newMapStore() })
	f.ScaleEvents = 20_000
	for _, e := range Entries(f) {
		if !e.Scale {
			continue
		}
		round, err := e.Start(t.Context(), &suite.Env{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		rec := suite.NewRecorder(1)
		if err := errors.Join(round.Prepare(t.Context(), e.Fixed), round.Run(t.Context(), e.Fixed, rec), round.Close()); err != nil {
			t.Fatal(err)
		}
		marks := rec.Marks()
		if len(marks) < 5 {
			t.Errorf("%s has %d marks of %d operations", e.Case, len(marks), e.Fixed)
		}
		for i, m := range marks {
			if i > 0 && m.Elapsed < marks[i-1].Elapsed {
				t.Errorf("%s: mark %d is before the one before it", e.Case, i)
			}
		}
	}
}

// TestSmallerScaleTestsSaySo: who does less than the case says has it in its row.
func TestSmallerScaleTestsSaySo(t *testing.T) {
	f := factory(func() Store { return newMapStore() })
	for events, want := range map[int]string{0: "a note", 500: "a note; scale tests of 500 events instead of 1000000"} {
		f.Note, f.ScaleEvents = "a note", events
		for _, e := range Entries(f) {
			if e.Scale && e.Note != want {
				t.Errorf("%s with %d events: %q, want %q", e.Case, events, e.Note, want)
			}
			if !e.Scale && e.Note != "a note" {
				t.Errorf("%s: %q", e.Case, e.Note)
			}
		}
	}
}
