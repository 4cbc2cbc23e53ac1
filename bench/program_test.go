package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/runner"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/internal/soak"
	"github.com/mainstemdev/mainstem/bench/suite"
)

// honest is the suite of the tests.
func honest() []suite.Suite {
	return []suite.Suite{runnertest.Suite(runnertest.Honest, runnertest.Slow, runnertest.Absent)}
}

// TestMain is also the process of a contender.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == runner.ContenderCommand {
		p := newProgram()
		p.suites = honest
		os.Exit(p.run(context.Background(), os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// bench runs a command line in the current directory.
func bench(t *testing.T, suites func() []suite.Suite, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	p := &program{suites: suites, stdin: strings.NewReader(""), stdout: &out, stderr: &err, terminal: true}
	status = p.run(t.Context(), args)
	return status, out.String(), err.String()
}

func short(args ...string) []string {
	return append(args, "--rounds", "5", "--time", "2ms")
}

func TestSoakCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	brief := []string{"soak", "--durability", "os", "--keys", "500", "--idle", "100ms", "--every", "50ms", "--rate", "300"}
	status, out, stderr := bench(t, honest, append(brief, "--for", "700ms", "--plots", "plots", "--dir", ".")...)
	if status != 0 || !strings.Contains(out, "8 writers put 500 keys, values of 100 bytes, at os") || !strings.Contains(out, "steady") {
		t.Fatalf("status %d\n%s%s", status, out, stderr)
	}
	for _, name := range []string{soakFile, "plots/soak-latency.png", "plots/soak-bytes.svg", "plots/soak-count.png"} {
		if info, err := os.Stat(filepath.FromSlash(name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := filepath.Glob("bench-soak-*"); err != nil || len(left) != 0 {
		t.Errorf("the directories %q are left: %v", left, err)
	}
	var r soak.Result
	if status, out, stderr = bench(t, honest, append(brief, "--for", "300ms", "--json")...); status != 0 || json.Unmarshal([]byte(out), &r) != nil || len(r.Series) == 0 {
		t.Errorf("--json: status %d\n%s%s", status, out, stderr)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	p := &program{suites: honest, stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
	if status := p.run(ctx, brief); status != exitInterrupted {
		t.Errorf("interrupted: status %d, want %d", status, exitInterrupted)
	}
	for name, args := range map[string][]string{
		"a durability of nothing": {"--durability", "paper"},
		"more than is sustained":  {"--part", "2"},
	} {
		if status, _, stderr := bench(t, honest, append([]string{"soak"}, args...)...); status != exitUsage || !strings.Contains(stderr, args[1]) {
			t.Errorf("%s: status %d, %s", name, status, stderr)
		}
	}
}

func TestRunReportPlotCompare(t *testing.T) {
	t.Chdir(t.TempDir())
	status, out, stderr := bench(t, honest, short("run")...)
	if status != 0 || !strings.Contains(out, "example/set: set one key") || !strings.Contains(out, "skipped  absent: there is no such server") {
		t.Fatalf("run: status %d\n%s%s", status, out, stderr)
	}
	if status, out, _ := bench(t, honest, "report"); status != 0 || !strings.Contains(out, "1 won, 0 lost, 0 even") {
		t.Errorf("report: status %d\n%s", status, out)
	}
	if status, out, _ := bench(t, honest, "report", "--gobench"); !strings.Contains(out, "\ntransport: in process\n") {
		t.Errorf("report --gobench does not say the transport: status %d\n%s", status, out)
	}
	if f, err := result.ReadFile(resultFile); err != nil || f.Rows[0].Transport != string(suite.InProcess) {
		t.Errorf("the results do not say the transport: %v", err)
	}
	if status, out, _ := bench(t, honest, "report", "--gobench"); status != 0 || strings.Count(out, "BenchmarkExample/set/") != 10 {
		t.Errorf("report --gobench: status %d\n%s", status, out)
	}
	if status, _, stderr := bench(t, honest, "report", "--dir", "all"); status != 0 {
		t.Errorf("report --dir: status %d\n%s", status, stderr)
	}
	if status, _, stderr := bench(t, honest, "plot", "--dir", "plots"); status != 0 {
		t.Errorf("plot: status %d\n%s", status, stderr)
	}
	for _, name := range []string{"all/report.md", "all/report.html", "all/results.json", "all/example-time.png", "plots/example-set-latency.svg", "plots/example-time.svg"} {
		if info, err := os.Stat(filepath.FromSlash(name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if status, _, stderr := bench(t, honest, "baseline", "--from", resultFile); status != 0 {
		t.Errorf("baseline --from: status %d\n%s", status, stderr)
	}
	if status, out, stderr := bench(t, honest, "compare", "--all", baselineFile, "--new", resultFile); status != 0 || !strings.Contains(out, "no difference") {
		t.Errorf("compare with itself: status %d\n%s%s", status, out, stderr)
	}
}

// TestCompareWithAnOldBaseline: a baseline that was written before files had the
// transport is still one.
func TestCompareWithAnOldBaseline(t *testing.T) {
	old, err := filepath.Abs(filepath.Join("internal", "result", "testdata", "version-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := result.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for i := range f.Rows {
		f.Rows[i].Transport = string(suite.InProcess)
	}
	if err := result.WriteFile("new.json", f); err != nil {
		t.Fatal(err)
	}
	if status, out, stderr := bench(t, honest, "compare", "--all", old, "--new", "new.json"); status != 0 || !strings.Contains(out, "no difference") {
		t.Errorf("compare: status %d\n%s%s", status, out, stderr)
	}
	if status, out, stderr := bench(t, honest, "report", old); status != 0 || !strings.Contains(out, "unknown") {
		t.Errorf("report: status %d\n%s%s", status, out, stderr)
	}
}

// TestJSONSaysTheTransport: so do the results that go to standard output.
func TestJSONSaysTheTransport(t *testing.T) {
	t.Chdir(t.TempDir())
	status, out, stderr := bench(t, honest, short("run", "--json", "--in-process")...)
	if status != 0 || strings.Count(out, `"transport":"in process"`) != 3 {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}
	if status, out, _ := bench(t, honest, "list"); status != 0 || strings.Count(out, "in process") != 3 {
		t.Errorf("list: status %d\n%s", status, out)
	}
}

// TestCompareFailsABuild: what is slower ends with a status of its own.
func TestCompareFailsABuild(t *testing.T) {
	t.Chdir(t.TempDir())
	f := runnertest.Results()
	if err := result.WriteFile("old.json", f); err != nil {
		t.Fatal(err)
	}
	for i := range f.Rows[0].Samples {
		f.Rows[0].Samples[i].Time *= 1.2
	}
	if err := result.WriteFile("new.json", f); err != nil {
		t.Fatal(err)
	}
	status, out, _ := bench(t, honest, "compare", "old.json", "--new", "new.json")
	if status != exitSlower || !strings.Contains(out, "SLOWER") || !strings.Contains(out, "+20.0 %") {
		t.Errorf("status %d, want %d\n%s", status, exitSlower, out)
	}
}

func TestStatus(t *testing.T) {
	t.Chdir(t.TempDir())
	cheating := func() []suite.Suite { return []suite.Suite{runnertest.Suite(runnertest.Forgetful)} }
	for _, c := range []struct {
		name   string
		suites func() []suite.Suite
		args   []string
		status int
		says   string
	}{
		{"unknown command", honest, []string{"rnu"}, exitUsage, "rnu"},
		{"unknown flag", honest, []string{"run", "--fast"}, exitUsage, "--fast"},
		{"unknown case", honest, []string{"run", "kv"}, exitUsage, `"kv"`},
		{"unknown contender", honest, []string{"list", "--contenders", "x"}, exitUsage, `"x"`},
		{"quick and scale", honest, []string{"run", "--quick", "--scale"}, exitUsage, "exclude"},
		{"no results", honest, []string{"report", "none.json"}, exitFailed, "none.json"},
		{"no baseline", honest, []string{"compare", "none.json"}, exitUsage, "none.json"},
		{"a cheat", cheating, short("run", "--in-process"), exitFailed, "1 of 1 entries failed"},
		{"a baseline of a cheat", cheating, short("baseline", "--in-process"), exitFailed, "no baseline"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, _, stderr := bench(t, c.suites, c.args...)
			if status != c.status || !strings.Contains(stderr, c.says) {
				t.Errorf("status %d, want %d; stderr: %s", status, c.status, stderr)
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stderr bytes.Buffer
	p := &program{suites: honest, stdin: strings.NewReader(""), stdout: io.Discard, stderr: &stderr}
	if status := p.run(ctx, short("run", "--in-process")); status != exitInterrupted {
		t.Errorf("status %d, want %d: %s", status, exitInterrupted, stderr.String())
	}
	if f, err := result.ReadFile(resultFile); err != nil || !f.Interrupted {
		t.Errorf("the results: %v, %+v", err, f)
	}
}

// TestSuites: the entries of all suites are sound.
func TestSuites(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range suites() {
		if s.Name == "" || s.About == "" || len(s.Entries) == 0 {
			t.Errorf("suite %q has no name, no description or no entries", s.Name)
		}
		for _, e := range s.Entries {
			if e.Suite != s.Name || e.About == "" || e.Durability == "" || e.Transport == "" || e.Start == nil {
				t.Errorf("%s in suite %s lacks something", e.Name(), s.Name)
			}
			if seen[e.Name()] {
				t.Errorf("%s is there twice", e.Name())
			}
			seen[e.Name()] = true
		}
	}
	if status, out, stderr := bench(t, suites, "list", "--json"); status != 0 || strings.Count(out, `"suite"`) != len(seen) {
		t.Errorf("list: status %d %s", status, stderr)
	}
}
