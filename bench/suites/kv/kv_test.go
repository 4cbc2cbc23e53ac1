package kv

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
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
	entries := Entries(factory("honest", func() Store { return newMapStore() }))
	if len(entries) < 18 {
		t.Fatalf("%d entries", len(entries))
	}
	for _, e := range entries {
		t.Run(e.Case, func(t *testing.T) {
			if err := rounds(t, e); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCheatsAreCaught(t *testing.T) {
	patience = 100 * time.Millisecond
	t.Cleanup(func() { patience = 30 * time.Second })
	for _, c := range cheats {
		for _, e := range Entries(factory("cheat", c.open)) {
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
	f := factory("lame", func() Store { return struct{ Store }{newMapStore()} })
	f.Lacks = map[string]string{"page": "no order", "set": "read only"}
	skipped := map[string]string{}
	for _, e := range Entries(f) {
		if reason := e.Skip(&suite.Env{}); reason != "" {
			skipped[e.Case] = reason
			continue
		}
		if e.Case == "watch" || strings.HasPrefix(e.Case, "compare-and-set") {
			if _, err := e.Start(t.Context(), &suite.Env{}); err == nil || !strings.Contains(err.Error(), "the contender") {
				t.Errorf("%s of a store that cannot: %v", e.Case, err)
			}
		}
	}
	for _, name := range []string{"page", "set", "set/8-clients", "set/32-clients"} {
		if skipped[name] == "" {
			t.Errorf("%s is not skipped: %v", name, skipped)
		}
	}
	if len(skipped) != 4 {
		t.Errorf("skipped: %v", skipped)
	}
}

// narrow is a store that takes no large values.
type narrow struct{ *mapStore }

func (narrow) Fits(_ context.Context, size int) error {
	return suite.Skipf("no value of %d bytes", size)
}

// TestBounded: a store without room for large values is skipped there, and only there.
func TestBounded(t *testing.T) {
	for _, e := range Entries(factory("narrow", func() Store { return narrow{newMapStore()} })) {
		err := rounds(t, e)
		if large := strings.HasSuffix(e.Case, "-large"); large != errors.Is(err, suite.ErrSkip) || !large && err != nil {
			t.Errorf("%s: %v", e.Case, err)
		}
	}
}

// TestScaleTestsCountAll: of so many keys that only some are read back, one that is
// missing is missed.
func TestScaleTestsCountAll(t *testing.T) {
	const keys = mostCounted + 100
	for name, open := range map[string]func() Store{
		"honest": func() Store { return newMapStore() }, "loses one": func() Store { return &losesOne{newMapStore()} },
	} {
		f := factory("scale", open)
		f.ScaleKeys = keys
		for _, e := range Entries(f) {
			if !e.Scale {
				continue
			}
			err := suite.Try(t.Context(), &e, &suite.Env{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}, 1, keys)
			if (err == nil) != (name == "honest") {
				t.Errorf("%s, %s: %v", e.Case, name, err)
			}
		}
	}
}

// TestSmallerScaleTestsSaySo: who does less than the case says has it in its row.
func TestSmallerScaleTestsSaySo(t *testing.T) {
	f := factory("scale", func() Store { return newMapStore() })
	for keys, want := range map[int]string{0: "a note", 500: "a note; scale tests of 500 keys instead of 1000000"} {
		f.Note, f.ScaleKeys = "a note", keys
		for _, e := range Entries(f) {
			if e.Scale && e.Note != want {
				t.Errorf("%s with %d keys: %q, want %q", e.Case, keys, e.Note, want)
			}
			if !e.Scale && e.Note != "a note" {
				t.Errorf("%s: %q", e.Case, e.Note)
			}
		}
	}
}
