package compare_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/bench/internal/compare"
	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
)

// file makes results of one row of times.
func file(ns []float64) *result.File {
	r := result.Row{
		Suite: "sum", Case: "blocks", Contender: "mainstem", Durability: "none", Op: "op", Items: 1, Clients: 1, Status: result.OK,
	}
	for i, v := range ns {
		r.Samples = append(r.Samples, result.Sample{Ops: 100, Time: v, Order: i + 1})
	}
	return &result.File{Version: result.Version, Rows: []result.Row{r}}
}

// judged makes the comparison that `compare COMMIT` makes: what looks slower is
// measured again.
func judged(m twice) compare.Change {
	t := compare.DefaultThresholds()
	first := compare.Files(file(m.First.Old), file(m.First.New), t)
	if len(first.Suspects()) > 0 {
		first = first.Confirm(compare.Files(file(m.Again.Old), file(m.Again.New), t))
	}
	return first.Changes[0]
}

// TestRecordedRuns: of ten comparisons with a program whose path was slowed by a fifth
// all are flagged, of ten with an unchanged one none is.
func TestRecordedRuns(t *testing.T) {
	data, err := os.ReadFile(recordedFile)
	if err != nil {
		t.Fatal(err)
	}
	var all recorded
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Unchanged) != pairs || len(all.Slowed) != pairs {
		t.Fatalf("%d and %d recorded comparisons, want %d of each", len(all.Unchanged), len(all.Slowed), pairs)
	}
	for i, m := range all.Slowed {
		if c := judged(m); c.Judgement != compare.Slower {
			t.Errorf("%d of the slowed program: %s (%.3f times, p %.4f)", i, c.Judgement, c.Comparison.Ratio, c.Comparison.P)
		}
	}
	for i, m := range all.Unchanged {
		if c := judged(m); c.Judgement == compare.Slower {
			t.Errorf("%d of the unchanged program: %s (%.3f times, p %.4f)", i, c.Judgement, c.Comparison.Ratio, c.Comparison.P)
		}
	}
}

func find(t *testing.T, r compare.Report, name, measure string) compare.Change {
	t.Helper()
	for _, c := range r.Changes {
		if c.Name == name && c.Measure == measure {
			return c
		}
	}
	t.Fatalf("no change of %s %s", name, measure)
	return compare.Change{}
}

func TestJudgements(t *testing.T) {
	old, new := runnertest.Results(), runnertest.Results()
	rows := map[string]*result.Row{}
	for i := range new.Rows {
		rows[new.Rows[i].Name()] = &new.Rows[i]
	}
	for i := range rows["kv/set/bbolt"].Samples {
		rows["kv/set/bbolt"].Samples[i].Time *= 1.5
		rows["kv/set/pebble-os"].Samples[i].Time *= 0.5
		rows["kv/set/mainstem-pebble-os"].Samples[i].Allocs++
		rows["kv/set/mainstem-pebble-fsync"].Samples[i].Bytes += 10 // noise of the runtime
	}
	for i := range rows["footprint/idle/other"].Metrics[0].Values {
		rows["footprint/idle/other"].Metrics[0].Values[i] *= 2
	}
	lost := rows["kv/set/8-clients/bbolt"]
	lost.Status, lost.Reason, lost.Samples, lost.Latency = result.Failed, "broken", nil, nil
	new.Rows = new.Rows[:len(new.Rows)-1]
	for i := range old.Rows {
		if old.Rows[i].Name() == "kv/set/8-clients/mainstem-pebble-fsync" {
			old.Rows[i].Contender = "gone"
		}
	}
	new.Machine.CPU = "Another CPU"

	r := compare.Files(old, new, compare.DefaultThresholds())
	for _, want := range []struct {
		name, measure string
		judgement     compare.Judgement
	}{
		{"kv/set/bbolt", "time", compare.Slower},
		{"kv/set/bbolt", "allocs", compare.Same},
		{"kv/set/pebble-os", "time", compare.Faster},
		{"kv/set/mainstem-pebble-os", "time", compare.Same},
		{"kv/set/mainstem-pebble-os", "allocs", compare.Slower},
		{"kv/set/mainstem-pebble-fsync", "bytes", compare.Small},
		{"footprint/idle/other", "resident", compare.Slower},
		{"kv/set/8-clients/bbolt", "time", compare.Lost},
		{"kv/set/8-clients/gone", "time", compare.Lost},
		{"kv/scale/set/mainstem-pebble-os", "time", compare.Lost},
		{"kv/set/8-clients/mainstem-pebble-fsync", "time", compare.New},
	} {
		if got := find(t, r, want.name, want.measure); got.Judgement != want.judgement {
			t.Errorf("%s %s: %s (%+v), want %s", want.name, want.measure, got.Judgement, got.Comparison, want.judgement)
		}
	}
	if r.Machines == "" {
		t.Error("nothing says that the machines differ")
	}
	if n := len(r.Counts()); n != 6 {
		t.Errorf("%d changes count, want 6", n)
	}
}

func TestConfirm(t *testing.T) {
	steady, slow := []float64{100, 101, 102, 99, 98, 100}, []float64{200, 201, 202, 199, 198, 200}
	t0 := compare.DefaultThresholds()
	first := compare.Files(file(steady), file(slow), t0)
	if s := first.Suspects(); len(s) != 1 || s[0] != "sum/blocks" {
		t.Fatalf("the suspects are %v", s)
	}
	if again := first.Confirm(compare.Files(file(steady), file(slow), t0)); len(again.Counts()) != 1 {
		t.Error("what is slower twice does not count")
	}
	if again := first.Confirm(compare.Files(file(steady), file(steady), t0)); len(again.Counts()) != 0 {
		t.Error("what is slower once counts")
	}
}

func TestThresholds(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "t.yaml")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	th, err := compare.ReadThresholds(write("alpha: 0.02\ntime: 60%\nrows:\n  - match: kv/set\n    time: 30%\n"))
	if err != nil {
		t.Fatal(err)
	}
	old, new := runnertest.Results(), runnertest.Results()
	for i := range new.Rows {
		for j := range new.Rows[i].Samples {
			new.Rows[i].Samples[j].Time *= 1.5
		}
	}
	r := compare.Files(old, new, th)
	if got := find(t, r, "kv/set/bbolt", "time").Judgement; got != compare.Slower {
		t.Errorf("half as much again is %s above 30%%", got)
	}
	th.Rows[0].Match = "event"
	if got := find(t, compare.Files(old, new, th), "kv/set/bbolt", "time").Judgement; got != compare.Small {
		t.Errorf("half as much again is %s below 60%%", got)
	}
	for _, bad := range []string{"tiem: 3%", "time: 3", "time: -3%", "time: 3% x", "alpha: 0", "alpha: 2", "rows: [{time: 3%}]", "time: nan%"} {
		if _, err := compare.ReadThresholds(write(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		} else if !strings.Contains(err.Error(), "t.yaml") {
			t.Errorf("%q: %v does not name the file", bad, err)
		}
	}
	if th, err := compare.ReadThresholds(write("")); err != nil || th.Time != compare.DefaultThresholds().Time {
		t.Errorf("an empty file: %+v, %v", th, err)
	}
}

// TestAnotherTransport: a library and a server are not compared with each other, but a
// file that does not say how its contenders were reached is compared as before.
func TestAnotherTransport(t *testing.T) {
	judged := func(transport string) compare.Judgement {
		old, new := runnertest.Results(), runnertest.Results()
		old.Rows[0].Transport = transport
		return compare.Files(old, new, compare.DefaultThresholds()).Changes[0].Judgement
	}
	for transport, want := range map[string]compare.Judgement{
		"in process": compare.Same, "": compare.Same, "loopback TCP": compare.Unusable,
	} {
		if got := judged(transport); got != want {
			t.Errorf("reached over %q before: %q, want %q", transport, got, want)
		}
	}
}
