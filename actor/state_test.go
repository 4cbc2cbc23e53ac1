package actor

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/invariants"
)

// TestTransitionTable walks the table: from every phase every event either does what
// its row says or is refused, every phase can be reached from the first and leads to
// the last.
func TestTransitionTable(t *testing.T) {
	rows := make(map[transition]bool)
	for _, row := range transitions {
		if rows[row] || next[row.on][row.from] != row.to {
			t.Errorf("%v, %v -> %v stands twice in the table, or contradicts another row", row.from, row.on, row.to)
		}
		rows[row] = true
	}
	reached := reachable(phaseStarting, func(row transition) (from, to phase) { return row.from, row.to })
	returned := reachable(phaseFinished, func(row transition) (from, to phase) { return row.to, row.from })
	for p := range phase(phases) {
		if !reached[p] || !returned[p] {
			t.Errorf("%v: reached from starting: %v, leads to finished: %v; want both", p, reached[p], returned[p])
		}
		for e := range lifeEvent(lifeEvents) {
			tryStep(t, p, e)
		}
	}
	if (&state{phase: phaseFinished}).can(onRestart) {
		t.Error("a finished actor can be restarted")
	}
}

// reachable returns the phases that can be reached from one.
func reachable(from phase, edge func(transition) (from, to phase)) map[phase]bool {
	seen := map[phase]bool{from: true}
	for grown := true; grown; {
		grown = false
		for _, row := range transitions {
			if a, b := edge(row); seen[a] && !seen[b] {
				seen[b], grown = true, true
			}
		}
	}
	return seen
}

// tryStep takes the step for e in phase p. If the table has no such step, step must change nothing,
// and panic in builds with invariants.
func tryStep(t *testing.T, p phase, e lifeEvent) {
	t.Helper()
	s := state{phase: p, supervised: e == onSuspend || e == onRestart}
	want, allowed := p, s.can(e)
	if allowed {
		want = next[e][p]
	}
	panicked := func() (v any) {
		defer func() { v = recover() }()
		s.step(e)
		return nil
	}()
	if s.phase != want || (panicked != nil) != (!allowed && invariants.Enabled) {
		t.Errorf("%v in %v: now %v, want %v; panic: %v", e, p, s.phase, want, panicked)
	}
}

// TestSupervisionOfSteps checks that, in builds with invariants, the steps of supervised actors
// panic for one that is not supervised, and the other way round.
func TestSupervisionOfSteps(t *testing.T) {
	for _, row := range transitions {
		for _, supervised := range []bool{false, true} {
			wrong := (row.on == onSuspend || row.on == onRestart) && !supervised || (row.on == onShut || row.on == onPart) && supervised
			func() {
				defer func() {
					if v := recover(); (v != nil) != (wrong && invariants.Enabled) {
						t.Errorf("%v in %v, supervised %v: panic %v", row.on, row.from, supervised, v)
					}
				}()
				(&state{phase: row.from, supervised: supervised}).step(row.on)
			}()
		}
	}
}

// TestPhaseHasOneWriter parses the package: only step may set a phase, since only step uses the
// table.
func TestPhaseHasOneWriter(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	write := regexp.MustCompile(`\.phase\s*=[^=]|\b(c|p|root|core)\.state\s*=[^=]|&[a-z.]*state\.phase|state\{`)
	writers := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range write.FindAllString(string(text), -1) {
			if writers++; f != "state.go" || writers > 1 {
				t.Errorf("%s sets a phase (%q): only state.step may", f, at)
			}
		}
	}
	if writers == 0 {
		t.Error("no writer found: the pattern does not fit the code")
	}
}

// TestFinalizeLeavesAnEndedActorAlone checks that a supervisor that has left a child
// behind cannot take the last steps in place of the child's own goroutine: both would
// then report the end.
func TestFinalizeLeavesAnEndedActorAlone(t *testing.T) {
	n, err := Open("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newProcess(n, Func[int](func(*Context[int], int) error { return nil }), &settings{Options{Name: "named"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.hatch(&n.root); err != nil {
		t.Fatal(err)
	}
	ended := p.ending()
	p.mu.Lock()
	p.claim()
	p.state.step(onEnd)
	p.mu.Unlock()
	p.part(Normal)

	// A monitor that is set now hears of the end when the name is free.
	var heard []error
	(&watch{notify: func(reason error) {
		heard = append(heard, reason)
		if _, err := Lookup[int](n, "named"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("the name when the monitor reports: %v, want NotFound", err)
		}
	}}).begin(&p.core)
	if len(heard) > 0 {
		t.Errorf("the monitor reports %v before the name is free", heard)
	}

	p.finalize(Shutdown)
	if p.state.phase != phaseEnded {
		t.Fatalf("finalize took an ended actor to %v", p.state.phase)
	}
	if !p.terminate(onTerminate, Normal) {
		t.Fatal("its own goroutine cannot terminate it")
	}
	if len(heard) != 1 || heard[0] != Missing {
		t.Errorf("the monitor has reported %v, want Missing once", heard)
	}
	p.finish()
	if _, open := <-ended; open || p.state.phase != phaseFinished || n.Len() != 0 {
		t.Errorf("it is %v, %d actors left", p.state.phase, n.Len())
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}
