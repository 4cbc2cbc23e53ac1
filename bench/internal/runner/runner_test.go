package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/runner"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
)

// TestMain is also the process of a contender and of a server: the bench starts
// itself again.
func TestMain(m *testing.M) {
	suites := []suite.Suite{runnertest.Suite()}
	if len(os.Args) > 1 && os.Args[1] == runner.ContenderCommand {
		if runner.Serve(context.Background(), os.Stdin, os.Stdout, suites, quiet) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 3 && os.Args[1] == runner.ServerCommand {
		if runner.ServeServer(context.Background(), os.Args[2], os.Args[3], os.Stdin, os.Stdout, suites) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// local runs contenders in this process.
func local(contenders ...string) runner.Options {
	s := []suite.Suite{runnertest.Suite(contenders...)}
	return runner.Options{
		Suites: s, Rounds: 4, Time: time.Millisecond,
		Variants: []runner.Variant{{Launch: func(context.Context) (runner.Executor, error) { return runner.NewLocal(s, quiet), nil }}},
	}
}

// processes runs each contender in a process of its own.
func processes(t *testing.T, contenders ...string) runner.Options {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := local(contenders...)
	o.Variants[0].Launch = func(ctx context.Context) (runner.Executor, error) {
		p, err := runner.Launch(ctx, self)
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	return o
}

func run(t *testing.T, o runner.Options) *result.File {
	t.Helper()
	o.Dir = t.TempDir()
	files, err := runner.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := files[0].Validate(); err != nil {
		t.Errorf("the results are not valid: %v", err)
	}
	if left, _ := os.ReadDir(o.Dir); len(left) > 0 {
		t.Errorf("%s is left behind", filepath.Join(o.Dir, left[0].Name()))
	}
	return files[0]
}

func only(t *testing.T, f *result.File) *result.Row {
	t.Helper()
	if len(f.Rows) != 1 {
		t.Fatalf("%d rows, want 1", len(f.Rows))
	}
	return &f.Rows[0]
}

func TestMeasuresAnHonestContender(t *testing.T) {
	for name, o := range map[string]runner.Options{"local": local(runnertest.Honest), "process": processes(t, runnertest.Honest)} {
		t.Run(name, func(t *testing.T) {
			r := only(t, run(t, o))
			if r.Status != result.OK || len(r.Samples) != 4 {
				t.Fatalf("%s (%s) with %d samples, want ok with 4", r.Status, r.Reason, len(r.Samples))
			}
			if r.Latency == nil || r.Latency.At(0.5) <= 0 {
				t.Errorf("no median latency: %+v", r.Latency)
			}
			for _, s := range r.Samples {
				if s.Time <= 0 || s.Ops < 2 {
					t.Errorf("a sample of %d operations of %v ns", s.Ops, s.Time)
				}
			}
		})
	}
}

// TestCheatsAreCaught: what returns without having done the work, and what reads
// old data, has no time in the results, however fast it is.
func TestCheatsAreCaught(t *testing.T) {
	for _, cheat := range []string{runnertest.Forgetful, runnertest.Stale} {
		t.Run(cheat, func(t *testing.T) {
			r := only(t, run(t, local(cheat)))
			if r.Status != result.Failed || !strings.Contains(r.Reason, "WRONG ANSWER") || len(r.Samples) > 0 {
				t.Errorf("%s (%s) with %d samples, want failed by a wrong answer without any", r.Status, r.Reason, len(r.Samples))
			}
		})
	}
}

func TestReasons(t *testing.T) {
	for contender, want := range map[string]struct{ status, reason string }{
		runnertest.Failing:   {result.Failed, "the disk is full"},
		runnertest.Panicking: {result.Failed, "nil pointer dereference"},
		runnertest.Absent:    {result.Skipped, "there is no such server"},
		runnertest.Unready:   {result.Skipped, "version 1 cannot do that"},
		runnertest.Unclosed:  {result.Failed, "not everything was written"},
		runnertest.Dying:     {result.Failed, "these are my last words"},
		runnertest.Hanging:   {result.Failed, "the limit of an entry"},
	} {
		t.Run(contender, func(t *testing.T) {
			o := processes(t, contender)
			if contender == runnertest.Hanging {
				o.Timeout = 300 * time.Millisecond
			}
			r := only(t, run(t, o))
			if r.Status != want.status || !strings.Contains(r.Reason, want.reason) {
				t.Errorf("%s: %q, want %s: %q", r.Status, r.Reason, want.status, want.reason)
			}
		})
	}
}

// TestOthersGoOn: one that dies takes nobody along.
func TestOthersGoOn(t *testing.T) {
	f := run(t, processes(t, runnertest.Dying, runnertest.Honest))
	if f.Rows[0].Status != result.Failed || f.Rows[1].Status != result.OK {
		t.Errorf("%s and %s, want failed and ok", f.Rows[0].Status, f.Rows[1].Status)
	}
}

func TestLanesTakeTurns(t *testing.T) {
	o := local(runnertest.Honest, runnertest.Slow)
	o.Rounds = 10
	f := run(t, o)
	var order [2][]int
	for i := range f.Rows {
		for _, s := range f.Rows[i].Samples {
			order[i] = append(order[i], (s.Order-1)/2)
		}
	}
	for round := range o.Rounds {
		if order[0][round] != round || order[1][round] != round {
			t.Fatalf("round %d was not one of each: %v", round, order)
		}
	}
}

// canceller ends the run when the first case is done.
type canceller struct{ cancel func() }

func (canceller) Step(string, string, float64, float64) {}

func (c canceller) Finish(string, []*result.Row) { c.cancel() }

func TestInterruptKeepsWhatIsComplete(t *testing.T) {
	o := local(runnertest.Honest)
	second := runnertest.Entry(runnertest.Honest)
	second.Case = "again"
	o.Suites[0].Entries = append(o.Suites[0].Entries, second)
	ctx, cancel := context.WithCancel(t.Context())
	o.Watch = canceller{cancel}
	o.Dir = t.TempDir()
	files, err := runner.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if f := files[0]; !f.Interrupted || len(f.Rows) != 1 || f.Rows[0].Status != result.OK {
		t.Errorf("interrupted %v with %d rows, want true with the one that was done", f.Interrupted, len(f.Rows))
	}
}

func TestLimitIsShared(t *testing.T) {
	o := local(runnertest.Honest)
	for i := range 20 {
		for _, contender := range []string{"a", "b"} {
			e := runnertest.Entry(runnertest.Honest)
			e.Case, e.Contender = "set-"+string(rune('a'+i)), contender
			o.Suites[0].Entries = append(o.Suites[0].Entries, e)
		}
	}
	o.Time, o.Limit = time.Hour, 500*time.Millisecond
	if f := run(t, o); len(f.Rows) != 41 { // that it ends is the test: a round would take an hour
		t.Errorf("%d rows, want 41", len(f.Rows))
	}
	o.Limit = 1
	for _, r := range run(t, o).Rows {
		if r.Status != result.Skipped || !strings.Contains(r.Reason, "no time was left") {
			t.Errorf("%s: %s %q, want skipped for want of time", r.Case, r.Status, r.Reason)
		}
	}
}

func TestFreshAndFixedAndMetrics(t *testing.T) {
	starts := 0
	e := suite.Entry{
		Suite: "example", Case: "cold", Contender: "x", Durability: suite.None, Fresh: true, Fixed: 7, Primary: "resident",
		Start: func(context.Context, *suite.Env) (*suite.Round, error) {
			starts++
			return &suite.Round{
				Run: func(_ context.Context, n int, rec *suite.Recorder) error { rec.Mark(n); return nil },
				Metrics: func(context.Context) ([]suite.Metric, error) {
					return []suite.Metric{{Name: "resident", Unit: "B", Value: float64(starts)}}, nil
				},
			}, nil
		},
	}
	o := local(runnertest.Honest)
	o.Suites[0].Entries = []suite.Entry{e}
	r := only(t, run(t, o))
	if r.Status != result.OK || starts != 4 || r.Samples[0].Ops != 7 || len(r.Metric("resident").Values) != 4 {
		t.Errorf("%s (%s): %d starts, %+v", r.Status, r.Reason, starts, r)
	}
}

// TestLeast: an entry whose rounds share a cost has no rounds that are too small for it,
// and what only the first round does is not taken for the time of an operation.
func TestLeast(t *testing.T) {
	var rounds []int
	e := suite.Entry{
		Suite: "example", Case: "fetch", Contender: "x", Durability: suite.None, Least: 300,
		Start: func(context.Context, *suite.Env) (*suite.Round, error) {
			return &suite.Round{Run: func(_ context.Context, n int, _ *suite.Recorder) error {
				rounds = append(rounds, n)
				return nil
			}}, nil
		},
	}
	o := local(runnertest.Honest)
	o.Suites[0].Entries = []suite.Entry{e}
	r := only(t, run(t, o))
	if r.Status != result.OK || len(rounds) < 2 || rounds[0] != 300 || rounds[1] != 300 || slices.Min(rounds) != 300 {
		t.Errorf("%s (%s): rounds of %v operations", r.Status, r.Reason, rounds)
	}
}

// sleeper returns an entry whose rounds of n operations take took(n).
func sleeper(name, contender string, took func(n int) time.Duration) suite.Entry {
	return suite.Entry{
		Suite: "example", Case: name, Contender: contender, Durability: suite.None,
		Start: func(context.Context, *suite.Env) (*suite.Round, error) {
			return &suite.Round{Run: func(ctx context.Context, n int, _ *suite.Recorder) error {
				select {
				case <-time.After(took(n)):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}}, nil
		},
	}
}

// TestLimitHasJustPassed: the case that is last then has the shortest time, however many take part in it.
func TestLimitHasJustPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := local(runnertest.Honest)
		o.Time, o.Limit = time.Hour, time.Minute
		long := sleeper("long", "x", func(int) time.Duration { return o.Limit/5 + time.Second })
		long.Fixed = 1
		short := func(n int) time.Duration { return time.Duration(n) * time.Microsecond }
		o.Suites[0].Entries = []suite.Entry{long, sleeper("short", "x", short), sleeper("short", "y", short)}
		began := time.Now()
		f := run(t, o)
		if took := time.Since(began); took > o.Limit+o.Limit/6 {
			t.Errorf("it took %v with a limit of %v", took, o.Limit)
		}
		for _, r := range f.Rows {
			if r.Status != result.OK {
				t.Errorf("%s of %s: %s (%s)", r.Case, r.Contender, r.Status, r.Reason)
			}
		}
	})
}

// TestWarmingUp: how many operations fit a round is not decided by one round in which the processor
// was elsewhere, whichever it is.
func TestWarmingUp(t *testing.T) {
	for interrupted := range 5 {
		synctest.Test(t, func(t *testing.T) {
			rounds := 0
			o := local(runnertest.Honest)
			o.Time = 10 * time.Millisecond
			o.Suites[0].Entries = []suite.Entry{sleeper("sleep", "x", func(n int) time.Duration {
				took := time.Duration(n) * time.Microsecond
				if rounds++; rounds == interrupted {
					took += time.Second
				}
				return took
			})}
			r := only(t, run(t, o))
			if r.Status != result.OK || r.Samples[0].Ops != 10_000 {
				t.Errorf("round %d took a second more: %s (%s), samples %+v; want 10000 operations of 1 µs", interrupted, r.Status, r.Reason, r.Samples)
			}
		})
	}
}

func TestSelection(t *testing.T) {
	o := local()
	for _, pattern := range []string{"example", "example/set", "*/set", "example/*"} {
		o.Select = []string{pattern}
		if cases, err := o.Selected(); err != nil || len(cases) != 1 {
			t.Errorf("%s selects %d cases: %v", pattern, len(cases), err)
		}
	}
	o.Select = []string{"exmaple"}
	if _, err := o.Selected(); err == nil {
		t.Error("a name that is nowhere selects silently")
	}
	o.Select, o.Scale = []string{"example/set"}, true
	if _, err := o.Selected(); err == nil || !strings.Contains(err.Error(), "no scale tests") {
		t.Errorf("--scale of a case that is none: %v", err)
	}
	o.Scale = false
	o.Suites[0].Entries[0].Scale = true
	o.Contenders = []string{o.Suites[0].Entries[0].Contender}
	if _, err := o.Selected(); err == nil || !strings.Contains(err.Error(), "with --scale") {
		t.Errorf("a scale test without --scale: %v", err)
	}
	o.Suites[0].Entries[0].Scale = false
	o.Select, o.Contenders = nil, []string{"slow-*"}
	if cases, err := o.Selected(); err != nil || len(cases[0]) != 1 {
		t.Errorf("slow-* selects %v: %v", cases, err)
	}
}

func TestServersHaveTheirOwnProcess(t *testing.T) {
	address, stop, err := runner.SpawnServer(t.Context(), runnertest.Server.Name, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(address, "example:") || strings.HasSuffix(address, ":"+pid()) {
		t.Errorf("the address is %q: want one of another process than %s", address, pid())
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, _, err := runner.SpawnServer(t.Context(), "no-such", t.TempDir()); err == nil {
		t.Error("a server that does not exist has started")
	}
}

// TestServersAreQuoted: a failure has what the server said, which its client was not told.
func TestServersAreQuoted(t *testing.T) {
	r := only(t, run(t, processes(t, runnertest.Served)))
	want := "run: the server says 500\nexample-server said: " + runnertest.ServerSays
	if r.Status != result.Failed || r.Reason != want {
		t.Errorf("%s: %q, want %q", r.Status, r.Reason, want)
	}
}

// TestRowsSayTheTransport: where the server is that the user named is in the row.
func TestRowsSayTheTransport(t *testing.T) {
	o := local(runnertest.Honest, runnertest.Absent)
	for i := range o.Suites[0].Entries {
		o.Suites[0].Entries[i].Transport, o.Suites[0].Entries[i].Address = suite.LoopbackTCP, "db"
	}
	o.Addresses = map[string]string{"db": "10.0.0.7:1"}
	for _, r := range run(t, o).Rows {
		if r.Transport != string(suite.NetworkTCP) {
			t.Errorf("%s is reached over %q, want %q", r.Contender, r.Transport, suite.NetworkTCP)
		}
	}
}

// steps keeps what a watcher is told.
type steps struct{ part, until []float64 }

func (s *steps) Step(_, _ string, part, until float64) {
	s.part, s.until = append(s.part, part), append(s.until, until)
}

func (*steps) Finish(string, []*result.Row) {}

// TestProgress: every step begins where the one before has ended, or later where
// contenders are missing, and the last ends when everything is done.
func TestProgress(t *testing.T) {
	o := local(runnertest.Honest, runnertest.Absent, runnertest.Slow, runnertest.Failing)
	for _, name := range []string{"again", "once-more"} {
		e := runnertest.Entry(runnertest.Honest)
		e.Case, e.Fresh, e.Fixed = name, name == "again", 1
		o.Suites[0].Entries = append(o.Suites[0].Entries, e)
	}
	var s steps
	o.Watch = &s
	run(t, o)
	last := 0.0
	for i := range s.part {
		if s.part[i] < last-1e-9 || s.until[i] <= s.part[i] || s.until[i] > 1+1e-9 {
			t.Errorf("step %d is from %.3f to %.3f, after %.3f", i, s.part[i], s.until[i], last)
		}
		last = s.until[i]
	}
	if last < 1-1e-9 {
		t.Errorf("the last step ends at %.3f", last)
	}
}

// TestScaleTestsStandAlone: the data of a scale test are there for one contender at a
// time, and its rounds take turns all the same.
func TestScaleTestsStandAlone(t *testing.T) {
	started, open, most := "", 0, 0
	o := local(runnertest.Honest)
	o.Suites[0].Entries = nil
	for _, name := range []string{"a", "b"} {
		o.Suites[0].Entries = append(o.Suites[0].Entries, suite.Entry{
			Suite: "example", Case: "million", Contender: name, Durability: suite.Memory, Scale: true, Fixed: 10,
			Start: func(context.Context, *suite.Env) (*suite.Round, error) {
				started += name
				open++
				most = max(most, open)
				return &suite.Round{
					Run:   func(context.Context, int, *suite.Recorder) error { return nil },
					Close: func() error { open--; return nil },
				}, nil
			},
		})
	}
	o.Scale = true
	for _, r := range run(t, o).Rows {
		if r.Status != result.OK || len(r.Samples) != 4 {
			t.Errorf("%s is %s (%s) with %d samples", r.Contender, r.Status, r.Reason, len(r.Samples))
		}
	}
	if most != 1 || open != 0 || strings.Count(started, "a") != 4 || strings.Count(started, "b") != 4 || strings.Contains(started, "aaaa") {
		t.Errorf("started %s, %d open at a time, %d at the end", started, most, open)
	}
}

// TestSaves: what is complete is there before the end, marked as not all of it.
func TestSaves(t *testing.T) {
	o := local(runnertest.Honest)
	again := runnertest.Entry(runnertest.Honest)
	again.Case = "again"
	o.Suites[0].Entries = append(o.Suites[0].Entries, again)
	o.SaveEvery = 1
	var rows []int
	o.Save = func(files []*result.File) error {
		if !files[0].Interrupted || files[0].Validate() != nil {
			t.Errorf("interrupted %v, valid: %v", files[0].Interrupted, files[0].Validate())
		}
		rows = append(rows, len(files[0].Rows))
		return nil
	}
	if f := run(t, o); f.Interrupted || !slices.Equal(rows, []int{1, 2}) {
		t.Errorf("saved with %v rows, interrupted at the end: %v", rows, f.Interrupted)
	}
	o.Save = func([]*result.File) error { return os.ErrPermission }
	o.Dir = t.TempDir()
	if _, err := runner.Run(t.Context(), o); !errors.Is(err, os.ErrPermission) {
		t.Errorf("what cannot be saved: %v", err)
	}
}
