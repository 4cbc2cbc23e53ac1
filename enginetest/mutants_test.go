package enginetest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// notes is a reporter that writes down what it is told. It must be used by a
// goroutine of its own, which Fatalf ends.
type notes struct {
	mu     sync.Mutex
	failed bool
	lines  []string
}

func (n *notes) Helper() {}

func (n *notes) Failed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed
}

func (n *notes) Logf(format string, args ...any) { n.note(false, format, args...) }

func (n *notes) Errorf(format string, args ...any) { n.note(true, format, args...) }

func (n *notes) Fatalf(format string, args ...any) {
	n.note(true, format, args...)
	runtime.Goexit()
}

func (n *notes) note(failure bool, format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = n.failed || failure
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// take runs f on a new reporter and returns what it noted, "" if f did not fail.
func take(f func(r reporter)) string {
	n := &notes{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(n)
	}()
	<-done
	if !n.Failed() {
		return ""
	}
	return strings.Join(n.lines, "\n")
}

// takeInBubble does the same in a bubble: what hangs is found at once, and a machine that stands
// still is not taken for a log that does. All that f starts must end with it.
func takeInBubble(t *testing.T, f func(r reporter)) (out string) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { out = take(f) })
	return out
}

// features are those of the model behind a mutant, which hides what is optional.
func features() Features {
	f := All()
	f.Snapshot, f.Check, f.ClockKeeper = false, false, false
	f.Clock = NewClock()
	f.Limits = mainstem.Limits{MaxValue: 1 << 16, MaxBatchBytes: 1 << 18, MaxBatchWrites: 500}
	f.Programs, f.Steps = 40, 40
	return f
}

// featuresOf are the features by which a mutant that breaks law is judged. Where calls never
// return because of that the suite soon gives up. Elsewhere it must not: that a machine was
// busy would look like another fault than the one it is to find.
func featuresOf(law Law) Features {
	f := features()
	f.Patience = 3 * time.Second
	if law == Live {
		f.Patience = 150 * time.Millisecond
	}
	return f
}

// broken makes stores whose logs are broken by spoil.
func broken(f *Features, spoil func(log *model.Log) *mutant) store {
	var mu sync.Mutex
	behind := map[mainstem.Log]*model.Log{}
	keep := func(l *model.Log) mainstem.Log {
		m := spoil(l)
		mu.Lock()
		defer mu.Unlock()
		behind[m] = l
		return m
	}
	f.Reopen = func(*testing.T, mainstem.Log) mainstem.Log { return nil } // declares it
	return store{
		open: func() mainstem.Log { return keep(model.New(&model.Options{Now: f.Clock.Now, Limits: f.Limits})) },
		reopen: func(log mainstem.Log) mainstem.Log {
			mu.Lock()
			l := behind[log]
			mu.Unlock()
			return keep(l.Reopen())
		},
		restore: func(io.Reader) mainstem.Log { return nil },
	}
}

// TestSuiteFindsBrokenEngines breaks the model in many ways, each of which must
// make a case of the right law fail and say so.
func TestSuiteFindsBrokenEngines(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			f := featuresOf(m.law)
			if m.declare != nil {
				m.declare(&f)
			}
			s := broken(&f, m.spoil)
			var failed []string
			for _, c := range allCases() {
				if c.needs&^f.has() != 0 || c.law != m.law && !strings.Contains(m.also, c.name) {
					continue
				}
				out := take(func(r reporter) { c.check(r, f.withDefaults(), s) })
				if out == "" {
					continue
				}
				failed = append(failed, c.title())
				if want := "breaks " + m.law.String(); !strings.Contains(out, want) {
					t.Errorf("%s fails, but does not say %q:\n%s", c.title(), want, out)
				}
				if c.promise == "" || !strings.Contains(out, c.promise) {
					t.Errorf("%s fails, but does not say what was promised:\n%s", c.title(), out)
				}
			}
			if len(failed) == 0 {
				t.Errorf("no case of %s notices", m.law)
			}
			t.Logf("noticed by %s", strings.Join(failed, ", "))
		})
	}
}

// TestProgramsFindBrokenEngines does the same with random programs, which must
// end with a small program and its seed. They are the same in every run, one step after another: a short run, for the race
// detector, breaks fewer engines.
func TestProgramsFindBrokenEngines(t *testing.T) {
	t.Parallel()
	for i, m := range mutants {
		if m.lines == 0 || testing.Short() && i%8 != 0 {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			f := features()
			f.Programs, f.Seed = 300, 1
			s := broken(&f, m.spoil)
			out := takeInBubble(t, func(r reporter) { runPrograms(r, f, s) })
			if out == "" {
				t.Fatalf("%d programs notice nothing", f.Programs)
			}
			if n := len(numbered.FindAllString(out, -1)); n > m.lines || n == 0 && !strings.Contains(out, "in the end") {
				t.Errorf("the program has %d steps, want at most %d:\n%s", n, m.lines, out)
			}
			if !strings.Contains(out, "Features{Seed: ") {
				t.Errorf("the seed is not told:\n%s", out)
			}
		})
	}
}

// TestProgramsFindWrongClocks has engines that take the steps of a clock wrongly. Programs
// must see that in the records, whatever the engine says of its clock.
func TestProgramsFindWrongClocks(t *testing.T) {
	t.Parallel()
	seeds := 150
	if testing.Short() {
		seeds = 30
	}
	for name, c := range map[string]struct {
		options func(*Clock) model.Options
		right   bool
	}{
		"right": {right: true, options: func(c *Clock) model.Options {
			return model.Options{Now: c.Now, Monotonic: c.Monotonic}
		}},
		"expires by the jump": {options: func(c *Clock) model.Options {
			return model.Options{Now: c.Now}
		}},
		"stops expiry after a set-back": {options: func(c *Clock) model.Options {
			var latest atomic.Int64
			now := func() time.Time {
				for {
					at, was := c.Now().UnixNano(), latest.Load()
					if at <= was {
						return time.Unix(0, was)
					}
					if latest.CompareAndSwap(was, at) {
						return time.Unix(0, at)
					}
				}
			}
			return model.Options{Now: now, Monotonic: c.Monotonic}
		}},
		"times follow the clock back": {options: func(c *Clock) model.Options {
			return model.Options{Now: c.Now, Monotonic: c.Monotonic}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := features().withDefaults()
			f.Reopen = func(*testing.T, mainstem.Log) mainstem.Log { return nil }
			s := store{
				open: func() mainstem.Log {
					o := c.options(f.Clock)
					o.Limits = f.Limits
					return model.New(&o)
				},
				reopen: func(log mainstem.Log) mainstem.Log { return log.(*model.Log).Reopen() },
			}
			if name == "times follow the clock back" {
				s = broken(&f, func(l *model.Log) *mutant {
					return &mutant{Log: l, change: func(r mainstem.Record) mainstem.Record {
						if now := f.Clock.Now(); r.Time.After(now) {
							r.Time = now
						}
						return r
					}}
				})
			}
			set := f
			set.ClockKeeper = true
			for seed := range uint64(seeds) {
				p := generate(rand.New(rand.NewPCG(seed, 0)), set)
				_, err := p.run(f, s, true)
				if err == nil {
					continue
				}
				if c.right {
					t.Fatalf("seed %d: %v", seed, err)
				}
				t.Logf("seed %d: %v", seed, err)
				return
			}
			if !c.right {
				t.Fatal("no program notices")
			}
		})
	}
}

// numbered finds the steps of a printed program.
var numbered = regexp.MustCompile(`(?m)^ +\d+\. `)

func TestProgramsAreTheSameForASeed(t *testing.T) {
	f := features()
	s := broken(&f, mutants[0].spoil)
	f.Seed, f.Programs = 7, 50
	first := takeInBubble(t, func(r reporter) { runPrograms(r, f, s) })
	if second := takeInBubble(t, func(r reporter) { runPrograms(r, f, s) }); first != second || first == "" {
		t.Errorf("one seed reported\n%s\nthen\n%s", first, second)
	}
}

func TestUndeclaredFeaturesMustBeRefused(t *testing.T) {
	for name, hide := range map[string]func(f *Features){
		"Truncate": func(f *Features) { f.Truncate = false },
		"Expiry":   func(f *Features) { f.Expiry = false },
		"MaxBytes": func(f *Features) { f.MaxBytes = false },
	} {
		f := features()
		hide(&f)
		s := broken(&f, func(l *model.Log) *mutant { return &mutant{Log: l} })
		out := takeInBubble(t, func(r reporter) { refusalCases[0].check(r, f.withDefaults(), s) })
		if !strings.Contains(out, "unsupported") {
			t.Errorf("an engine that offers %s without declaring it passes:\n%s", name, out)
		}
	}
}

func TestUndeclaredInterfacesAreNoticed(t *testing.T) {
	f := features()
	s := store{open: func() mainstem.Log { return model.New(&model.Options{Limits: f.Limits}) }}
	out := takeInBubble(t, func(r reporter) { getCases[0].check(r, f.withDefaults(), s) })
	if !strings.Contains(out, "Features.Snapshot declares false") {
		t.Errorf("an undeclared Snapshotter is not noticed:\n%s", out)
	}
}

// TestPanicIsAFailure makes sure that an engine that panics or hangs fails its
// case and nothing else.
func TestPanicIsAFailure(t *testing.T) {
	f := features()
	for name, spoil := range map[string]func(l *model.Log, over chan struct{}) *mutant{
		"panic: boom": func(l *model.Log, _ chan struct{}) *mutant {
			return &mutant{Log: l, head: func() { panic("boom") }}
		},
		"Close has not returned": func(l *model.Log, over chan struct{}) *mutant {
			return &mutant{Log: l, closing: func() { <-over }}
		},
	} {
		out := takeInBubble(t, func(r reporter) {
			over := make(chan struct{})
			defer close(over)
			s := broken(&f, func(l *model.Log) *mutant { return spoil(l, over) })
			orderedCases[0].check(r, f.withDefaults(), s)
		})
		if !strings.Contains(out, name) {
			t.Errorf("want a failure that says %q, got:\n%s", name, out)
		}
	}
}
