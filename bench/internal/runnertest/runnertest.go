// Package runnertest is a small suite of contenders that behave well and badly, for the
// tests of the bench: a map, one that returns without writing, one that returns what
// was there before, and ones that fail, panic, hang or are not there.
package runnertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// The contenders.
const (
	Honest    = "mainstem-map"     // a map
	Slow      = "slow-map"         // a map that waits before it sets: slower on any machine
	Forgetful = "forgetful"        // returns without writing
	Stale     = "stale"            // returns what was written before
	Failing   = "failing"          // an operation fails, and then closing too
	Panicking = "panicking"        // an operation panics
	Hanging   = "hanging"          // an operation never returns
	Dying     = "dying"            // the process ends
	Absent    = "absent"           // cannot run here
	Unready   = "unready"          // shows only when it starts that it cannot
	Unclosed  = "failing-to-close" // loses what was not written
	Served    = "served"           // an operation fails, and only its server says why
)

// store is what the suite asks of a contender.
type store struct {
	set   func(ctx context.Context, key int, value int) error
	get   func(key int) int
	close func() error
}

const keys = 64

// Suite returns the suite, with the contenders named; none means all.
func Suite(contenders ...string) suite.Suite {
	if len(contenders) == 0 {
		contenders = []string{Honest, Slow, Forgetful, Stale, Failing, Panicking, Hanging, Dying, Absent, Unready, Unclosed, Served}
	}
	s := suite.Suite{Name: "example", About: "A map, and those that only look like one.", Servers: []suite.Server{Server}}
	for _, c := range contenders {
		s.Entries = append(s.Entries, Entry(c))
	}
	return s
}

// ServerSays is what the server writes to standard error.
const ServerSays = "the directory went away"

// Server is a server that a case can ask for.
var Server = suite.Server{
	Name: "example-server",
	Start: func(_ context.Context, dir string) (string, func() error, error) {
		fmt.Fprintln(os.Stderr, ServerSays)
		return "example:" + fmt.Sprint(os.Getpid()), func() error { return nil }, nil
	},
}

// Entry returns the entry of a contender.
func Entry(contender string) suite.Entry {
	return suite.Entry{
		Suite: "example", Case: "set", Contender: contender, Durability: suite.Memory, Transport: suite.InProcess, About: "set one key", Op: "key",
		Skip: func(*suite.Env) string {
			if contender == Absent {
				return "there is no such server"
			}
			return ""
		},
		Start: func(ctx context.Context, env *suite.Env) (*suite.Round, error) {
			if contender == Unready {
				return nil, suite.Skipf("version 1 cannot do that")
			}
			s := open(contender)
			if contender == Served {
				_, stop, err := env.Serve(ctx, Server, env.Dir)
				if err != nil {
					return nil, err
				}
				s.store.close = stop
				s.store.set = func(context.Context, int, int) error { return errors.New("the server says 500") }
			}
			return &suite.Round{Run: s.run, Check: s.check, Close: s.store.close}, nil
		},
	}
}

// run is a started contender.
type run struct {
	store   store
	written [keys]int
	next    int
}

func open(contender string) *run {
	data := map[int]int{}
	before := map[int]int{}
	r := &run{store: store{
		set:   func(_ context.Context, k, v int) error { data[k] = v; return nil },
		get:   func(k int) int { return data[k] },
		close: func() error { return nil },
	}}
	s := &r.store
	switch contender {
	case Slow:
		s.set = func(ctx context.Context, k, v int) error {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
			data[k] = v
			return nil
		}
	case Forgetful:
		s.set = func(context.Context, int, int) error { return nil }
	case Stale:
		s.set = func(_ context.Context, k, v int) error { before[k], data[k] = data[k], v; return nil }
		s.get = func(k int) int { return before[k] }
	case Failing:
		s.set = func(context.Context, int, int) error { return errors.New("the disk is full") }
		s.close = func() error { return errors.New("nor does it close") } // which follows from the first
	case Panicking:
		s.set = func(context.Context, int, int) error { return (*run)(nil).store.close() }
	case Hanging:
		s.set = func(ctx context.Context, _, _ int) error { <-ctx.Done(); return ctx.Err() }
	case Dying:
		s.set = func(context.Context, int, int) error {
			fmt.Fprintln(os.Stderr, "these are my last words")
			die()
			return nil
		}
	case Unclosed:
		s.close = func() error { return errors.New("not everything was written") }
	}
	return r
}

func (r *run) run(ctx context.Context, n int, rec *suite.Recorder) error {
	return suite.Loop(ctx, n, rec, func(ctx context.Context, _ int) error {
		r.next++
		k := r.next % keys
		r.written[k] = r.next
		return r.store.set(ctx, k, r.next)
	})
}

func (r *run) check(context.Context) error {
	for k, want := range r.written {
		if got := r.store.get(k); got != want {
			return fmt.Errorf("key %d has the value %d, not %d, which was written last", k, got, want)
		}
	}
	return nil
}

// die ends the process as a crash would, without a word to anybody.
func die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill() // then it fails by its time limit
	}
	select {}
}
