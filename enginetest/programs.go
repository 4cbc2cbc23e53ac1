package enginetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
)

// RunPrograms runs random programs on a new log of open and on the model (see
// package enginetest/model) side by side and compares everything that the two
// answer: receipts, errors, records, statistics. Programs consist of batches with
// every operation and condition, every read, spaces created and dropped,
// snapshots, restarts and, with a Clock, the passing of time. If the log is a
// [mainstem.ClockKeeper] the clock is set as well, forward and back, and accepted.
//
// [Run] calls it. An engine's longer tests call it with more programs:
//
//	f.Programs, f.Steps = 10_000, 200
//	enginetest.RunPrograms(t, f, open)
//
// A program that fails is made as small as possible and printed with its seed;
// Features{Seed: seed, Programs: 1} runs it again.
//
//snippet:var f enginetest.Features
//snippet:var open func(*testing.T) mainstem.Log
func RunPrograms(t *testing.T, f Features, open func(t *testing.T) mainstem.Log) {
	t.Helper()
	f = f.withDefaults()
	if testing.Short() {
		f.Programs = max(f.Programs/4, 1)
	}
	runPrograms(t, f, storeOf(t, f, open))
}

func runPrograms(r reporter, f Features, s store) {
	r.Helper()
	f = f.withDefaults()
	seed := f.Seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	for n := range uint64(f.Programs) {
		p := generate(rand.New(rand.NewPCG(seed+n, 0)), f)
		p, err := p.run(f, s, true)
		if err == nil {
			continue
		}
		small, err := p.shrink(f, s, err)
		r.Fatalf("a program behaves unlike the model: %v\n%s\nThe program was made smaller; Features{Seed: %d, Programs: 1, Steps: %d} runs the whole one.", err, small, seed+n, f.Steps)
	}
}

// program is a list of steps. Steps find out what they need from the model
// when they run, so every part of a program is a program.
type program []step

// step is one thing that a program does to engine and model.
type step interface {
	fmt.Stringer
	run(m *machine) error // what differed
	smaller() []step      // steps that do a little less
}

func (p program) String() string {
	var s strings.Builder
	for i, st := range p {
		fmt.Fprintf(&s, "%4d. %s\n", i+1, st)
	}
	return s.String()
}

// run runs p on a new log and returns what first differed from the model, and
// the part of p that ran. A thorough run compares everything once more after a
// last restart.
func (p program) run(f Features, s store, thorough bool) (ran program, err error) {
	m := newMachine(f, s)
	err = guarded(func() error {
		for i, st := range p {
			m.env.progress.moved()
			if err := st.run(m); err != nil {
				p = p[:i+1] // the rest did not run
				return fmt.Errorf("step %d, %s: %w", i+1, st, err)
			}
		}
		return m.finish(thorough)
	})
	if cerr := m.close(); err == nil && cerr != nil {
		err = fmt.Errorf("close after the program: %w", cerr)
	}
	return p, err
}

// How much is done to make a failing program small.
const (
	shrinkRuns = 5000
	shrinkTime = time.Minute
)

// shrink returns a small program that fails too, and how it does. It leaves out
// ever smaller runs of steps, then parts of steps.
func (p program) shrink(f Features, s store, err error) (program, error) {
	deadline := time.Now().Add(shrinkTime)
	runs := 0
	_, quick := p.run(f, s, false)
	thorough := quick == nil // only then it needs the slow run to fail
	fails := func(q program) bool {
		if runs++; runs > shrinkRuns || time.Now().After(deadline) {
			return false
		}
		q, e := q.run(f, s, thorough)
		if e != nil {
			p, err = q, e
		}
		return e != nil
	}
	for size := len(p) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(p); {
			if !fails(append(append(program{}, p[:at]...), p[at+size:]...)) {
				at += size
			}
		}
	}
	for at := 0; at < len(p); at++ {
		for again := true; again && at < len(p); { // what fails earlier is shorter
			again = false
			for _, less := range p[at].smaller() {
				q := append(program{}, p...)
				q[at] = less
				if again = fails(q); again {
					break
				}
			}
		}
	}
	return p, err
}
