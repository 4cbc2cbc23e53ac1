package footprint_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/footprint"
)

// server is this process, and remembers in memory; for each directory once, so that
// what is started again finds what it had. Its fields make it cheat.
type server struct {
	*state
	forget     bool // puts nothing
	stale      bool // keeps the first value of a key
	partitions int  // has so many less than were asked for
	lose       int64
	deaf       bool // connections do not answer
	quiet      bool // tells of no pauses
}

type state struct {
	values map[int][]byte
	topics map[string][]int64
}

func (s *server) PID() int { return os.Getpid() }

func (s *server) Put(_ context.Context, first int, values [][]byte) error {
	for i, v := range values {
		if _, ok := s.values[first+i]; (ok && s.stale) || (s.forget && first+i == 7) {
			continue
		}
		s.values[first+i] = v
	}
	return nil
}

func (s *server) Get(_ context.Context, key int) ([]byte, error) { return s.values[key], nil }

func (s *server) Scan(_ context.Context, f func(int, []byte) error) error {
	for k, v := range s.values {
		if err := f(k, v); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) Fill(_ context.Context, topic string, partitions, each int) error {
	if s.topics[topic] == nil {
		s.topics[topic] = make([]int64, partitions-s.partitions)
	}
	for p := range s.topics[topic] {
		s.topics[topic][p] += int64(each) - s.lose
	}
	return nil
}

func (s *server) Ends(_ context.Context, topic string) ([]int64, error) { return s.topics[topic], nil }

type connection struct{ deaf bool }

func (c connection) Ask() error {
	if c.deaf {
		return errors.New("no answer")
	}
	return nil
}

func (connection) Close() error { return nil }

func (s *server) Connect(context.Context) (footprint.Connection, error) {
	return connection{s.deaf}, nil
}

func (s *server) Pauses() []time.Duration {
	if s.quiet {
		return nil
	}
	return []time.Duration{3, 1, 2}
}

func (s *server) Stop() error { return nil }

func factory(change func(*server)) footprint.Factory {
	dirs := map[string]*state{}
	return footprint.Factory{
		Name: "fake", Durability: suite.Memory,
		Build: func(context.Context) (string, error) { return os.Args[0], nil },
		Start: func(_ context.Context, _ string, o footprint.Options) (footprint.Server, error) {
			if dirs[o.Dir] == nil {
				dirs[o.Dir] = &state{map[int][]byte{}, map[string][]int64{}}
			}
			s := &server{state: dirs[o.Dir]}
			change(s)
			return s, os.WriteFile(filepath.Join(o.Dir, "file"), []byte("something"), 0o600)
		},
	}
}

// run runs one operation of each case that begins with a name.
func run(t *testing.T, f footprint.Factory, name string) (metrics map[string]float64, err error) {
	t.Helper()
	metrics = map[string]float64{}
	n := 0
	for _, e := range footprint.Entries(f) {
		if e.Scale || !strings.HasPrefix(e.Case, name) {
			continue
		}
		n++
		if err := round(t, &e, metrics); err != nil {
			return nil, err
		}
	}
	if n == 0 {
		t.Fatal("no case begins with", name)
	}
	return metrics, nil
}

func round(t *testing.T, e *suite.Entry, metrics map[string]float64) error {
	ctx := t.Context()
	r, err := e.Start(ctx, runnertest.Env(t, nil))
	if err != nil {
		return err
	}
	if r.Prepare != nil {
		err = r.Prepare(ctx, 2)
	}
	if err == nil {
		err = r.Run(ctx, 2, suite.NewRecorder(1))
	}
	if err == nil && r.Check != nil {
		err = r.Check(ctx)
	}
	if err == nil && r.Metrics != nil {
		var ms []suite.Metric
		ms, err = r.Metrics(ctx)
		for _, m := range ms {
			metrics[e.Case+" "+m.Name] = m.Value
		}
	}
	if r.Close != nil {
		err = errors.Join(err, r.Close())
	}
	return err
}

func TestCheats(t *testing.T) {
	defer footprint.Hurry()()
	for _, c := range []struct {
		name   string
		change func(*server)
		cases  []string
	}{
		{"forgets a key", func(s *server) { s.forget = true }, []string{"start/100k", "memory/100k"}},
		{"keeps what is old", func(s *server) { s.stale = true }, []string{"disk", "memory/idle"}},
		{"has a partition less", func(s *server) { s.partitions = 1 }, []string{"memory/1k-partitions", "pauses"}},
		{"loses a message", func(s *server) { s.lose = 1 }, []string{"memory/1k-partitions", "pauses"}},
		{"does not serve its connections", func(s *server) { s.deaf = true }, []string{"memory/1k-connections"}},
		{"tells of no pauses", func(s *server) { s.quiet = true }, []string{"pauses"}},
	} {
		for _, name := range c.cases {
			if _, err := run(t, factory(c.change), name); err == nil {
				t.Errorf("%s: a server that %s was not caught", name, c.name)
			}
		}
	}
}

func TestHonest(t *testing.T) {
	defer footprint.Hurry()()
	got, err := run(t, factory(func(*server) {}), "")
	if err != nil {
		t.Fatal(err)
	}
	if got["memory/idle resident"] < 1<<20 {
		t.Error("a Go program in less than a mebibyte:", got["memory/idle resident"])
	}
	if got["pauses max"] != 3 || got["pauses p99"] != 3 || got["pauses pauses"] != 3 {
		t.Error(got)
	}
	if got["binary size"] < 1<<20 || got["disk disk"] != 9.0/20_000 {
		t.Error(got)
	}
}

func TestParsePauses(t *testing.T) {
	got, err := footprint.ParsePauses(strings.NewReader(`level=INFO msg="gc 1 is a title"
gc 1 @0.018s 3%: 0.026+0.39+0.10 ms clock, 0.053+0.19/0.37/0.94+0.20 ms cpu, 4->4->0 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P
gc 2 @0.5s 0%: 1.5+12+0.004 ms clock, 3+0/1/0+0.008 ms cpu, 4->4->0 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P (forced)
`))
	if err != nil || len(got) != 4 {
		t.Fatal(got, err)
	}
	for i, want := range []time.Duration{26, 100, 1500, 4} {
		if got[i] != want*time.Microsecond {
			t.Error(i, got[i], want*time.Microsecond)
		}
	}
}
