package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/internal/stats"
)

// sample returns n times around a median of 100 with the long tail that times have.
func sample(r *rand.Rand, n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = 100 * math.Exp(0.1*r.NormFloat64())
	}
	return values
}

// TestIntervalsHold: the interval has the true median as often as it says.
func TestIntervalsHold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const trials = 4000
	for _, n := range []int{4, 5, 6, 10, 20} {
		inside, promised := 0, 0.0
		for range trials {
			s := stats.Summarize(sample(r, n))
			promised = s.Confidence
			if s.Lo <= 100 && 100 <= s.Hi {
				inside++
			}
		}
		if got := float64(inside) / trials; got < promised-0.015 {
			t.Errorf("%d rounds: the median is inside %.3f of the intervals, not %.3f", n, got, promised)
		}
	}
}

// TestRatioIntervalsHold: so has the interval of a ratio.
func TestRatioIntervalsHold(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	inside := 0
	const trials = 2000
	for range trials {
		old, new := sample(r, 10), sample(r, 10)
		for i := range new {
			new[i] *= 1.5
		}
		if c := stats.Compare(old, new, 0.05); c.Lo <= 1.5 && 1.5 <= c.Hi {
			inside++
		}
	}
	if got := float64(inside) / trials; got < stats.Confidence-0.02 {
		t.Errorf("the ratio is inside %.3f of the intervals, not %.3f", got, stats.Confidence)
	}
}

// TestSameIsRarelyDifferent: two samples of the same are told apart about as often as
// alpha allows.
func TestSameIsRarelyDifferent(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	different := 0
	const trials = 4000
	for range trials {
		if stats.Compare(sample(r, 10), sample(r, 10), 0.05).Different() {
			different++
		}
	}
	if got := float64(different) / trials; got > 0.06 {
		t.Errorf("%.3f of the comparisons of the same differ, want at most about 0.05", got)
	}
}

func TestRounds(t *testing.T) {
	for alpha, want := range map[float64]int{0.5: 2, 0.05: 4, 0.01: 5, 0.001: 7} {
		if got := stats.Rounds(alpha); got != want {
			t.Errorf("Rounds(%v) = %d, want %d", alpha, got, want)
		}
		apart := func(n int) bool {
			old, new := make([]float64, n), make([]float64, n)
			for i := range n {
				old[i], new[i] = float64(i+1), float64(1000+i)
			}
			return stats.Compare(old, new, alpha).Different()
		}
		if !apart(want) || apart(want-1) {
			t.Errorf("alpha %v: samples apart differ with %d rounds: %v, with %d: %v", alpha, want, apart(want), want-1, apart(want-1))
		}
	}
}

func TestFewSamplesSayNothing(t *testing.T) {
	c := stats.Compare([]float64{1, 1.1, 1.2}, []float64{10, 11, 12}, 0.05)
	if c.Different() || c.Needed != 4 {
		t.Errorf("three rounds each: different %v, %d needed; want false, 4", c.Different(), c.Needed)
	}
	if s := stats.Summarize(nil); s.N != 0 || s.Median != 0 {
		t.Errorf("the summary of nothing is %+v", s)
	}
	if c := stats.Compare([]float64{0, 0}, []float64{0, 0}, 0.05); c.Different() || c.Ratio != 1 {
		t.Errorf("nothing and nothing: %+v", c)
	}
}

func TestSamplesStay(t *testing.T) {
	values := []float64{3, 1, 2}
	stats.Summarize(values)
	stats.Compare(values, values, 0.05)
	if !slices.Equal(values, []float64{3, 1, 2}) {
		t.Errorf("the sample has become %v", values)
	}
}

func TestVerdicts(t *testing.T) {
	got := map[string]stats.Outcome{}
	for _, rows := range runnertest.Results().Cases() {
		for _, v := range stats.Judge(rows) {
			got[v.Suite+"/"+v.Case+" "+v.Durability] = v.Outcome
		}
	}
	want := map[string]stats.Outcome{
		"kv/set fsync": stats.Won, "kv/set/8-clients fsync": stats.Won, "kv/set/32-clients fsync": stats.Won,
		"kv/set os": stats.Even, "kv/set/8-clients os": stats.Even, "kv/set/32-clients os": stats.Even,
		"kv/set memory": stats.Won, "kv/set/8-clients memory": stats.Won, "kv/set/32-clients memory": stats.Won,
		"footprint/idle os": stats.Won,
	}
	for name, outcome := range want {
		if got[name] != outcome {
			t.Errorf("%s is %q, want %q", name, got[name], outcome)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d verdicts, want %d: %v", len(got), len(want), got)
	}
}

// TestDurabilitiesAreKeptApart: a faster peer that keeps less is no loss.
func TestDurabilitiesAreKeptApart(t *testing.T) {
	rows := runnertest.Results().Cases()[0]
	var two []*result.Row
	for _, r := range rows {
		if r.Contender == "mainstem-pebble-fsync" || r.Contender == "pebble-os" {
			two = append(two, r)
		}
	}
	if v := stats.Judge(two); len(v) != 0 {
		t.Errorf("fsync was compared with os: %+v", v)
	}
}

// TestServersAreComparedWithServers: a library that is faster than all servers hides no
// server, and two servers that are reached in different ways are not compared.
func TestServersAreComparedWithServers(t *testing.T) {
	row := func(contender, transport string, ns float64) *result.Row {
		r := *runnertest.Results().Cases()[0][0]
		r.Contender, r.Durability, r.Transport, r.Samples = contender, "os", transport, slices.Clone(r.Samples)
		for i := range r.Samples {
			r.Samples[i].Time = ns * (1 + float64(i)/100)
		}
		return &r
	}
	rows := []*result.Row{
		row("mainstem-pebble", "in process", 1), row("map", "in process", 2), row("file", "none", 1), row("old", "", 1),
		row("mainstem-remote", "loopback TCP", 30), row("mainstem-slow", "loopback TCP", 90), row("redis", "loopback TCP", 60), row("etcd", "loopback TCP", 500),
		row("mainstem-http", "loopback HTTP", 20),
	}
	verdicts := stats.JudgeServed(rows)
	if len(verdicts) != 1 {
		t.Fatalf("%d verdicts, want 1: %+v", len(verdicts), verdicts)
	}
	v := verdicts[0]
	if v.Ours.Contender != "mainstem-remote" || v.Peer.Contender != "redis" || v.Outcome != stats.Won || v.Ways() != stats.SameWay {
		t.Errorf("%s against %s: %s", v.Ours.Contender, v.Peer.Contender, v.Outcome)
	}
}

// TestFewRoundsLeaveItOpen: what too few rounds cannot tell apart is not called even.
func TestFewRoundsLeaveItOpen(t *testing.T) {
	rows := runnertest.Results().Cases()[0]
	for _, r := range rows {
		r.Samples = r.Samples[:min(len(r.Samples), 3)]
	}
	verdicts := stats.Judge(rows)
	if len(verdicts) == 0 {
		t.Error("no verdict")
	}
	for _, v := range verdicts {
		if v.Outcome != stats.Open || v.Comparison.Needed != 4 {
			t.Errorf("%s: %s with %d rounds needed, want open with 4", v.Durability, v.Outcome, v.Comparison.Needed)
		}
	}
}

// TestWays: a verdict knows whether a call is compared with a socket.
func TestWays(t *testing.T) {
	row := func(transport string) *result.Row { return &result.Row{Transport: transport} }
	for _, c := range []struct {
		ours, peer string
		want       stats.Ways
	}{
		{"in process", "in process", stats.SameWay},
		{"in process", "loopback TCP", stats.OtherWay},
		{"loopback HTTP", "loopback TCP", stats.OtherWay},
		{"", "loopback TCP", stats.UnknownWay},
		{"", "", stats.UnknownWay},
	} {
		v := stats.Verdict{Ours: row(c.ours), Peer: row(c.peer)}
		if got := v.Ways(); got != c.want {
			t.Errorf("%q against %q: %v, want %v", c.ours, c.peer, got, c.want)
		}
	}
}
