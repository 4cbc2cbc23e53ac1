package runner

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/mainstemdev/mainstem/bench/internal/machine"
	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/suite"
)

// Run runs what o selects and returns one file for each variant. When ctx ends it
// returns what is complete; errors are mistakes in o and directories that cannot
// be made, or that of o.Save, never a contender's.
func Run(ctx context.Context, o Options) ([]*result.File, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	cases, err := o.Selected()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.Dir, "bench-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	m := &run{o: o, dir: dir, executors: map[string]Executor{}, cost: map[string]*cost{}, began: time.Now(), random: rand.New(rand.NewPCG(1, 2))}
	for _, c := range cases {
		m.entries += weight(c)
	}
	m.left = m.entries
	for range o.Variants {
		m.files = append(m.files, o.file(ctx, dir))
	}
	if err := m.all(ctx, cases); err != nil {
		return nil, err
	}
	m.finish(ctx.Err() != nil)
	return m.files, nil
}

// file returns a file without rows.
func (o *Options) file(ctx context.Context, dir string) *result.File {
	return &result.File{
		Version: result.Version,
		Started: time.Now().UTC(),
		Machine: machine.Describe(dir),
		Build:   machine.Build(ctx),
		Settings: result.Settings{
			Rounds: o.Rounds, Time: o.Time, Limit: o.Limit, Quick: o.Quick, Scale: o.Scale, Selection: o.Select,
		},
	}
}

// run is the state of one call of [Run].
type run struct {
	o         Options
	dir       string
	began     time.Time
	files     []*result.File
	executors map[string]Executor // by variant and contender, of the suite that runs
	random    *rand.Rand
	entries   int              // in all, by weight
	left      int              // not yet done
	cost      map[string]*cost // of an entry, by suite
	weight    int              // in the case that runs
	steps     float64          // of the case that runs: rounds, and warming up in rounds
	done      float64          // of those
	order     int              // rounds so far
}

func (m *run) all(ctx context.Context, cases [][]*suite.Entry) error {
	defer m.closeExecutors()
	running, saved := "", m.began
	for _, c := range cases {
		if ctx.Err() != nil {
			return nil
		}
		if s := c[0].Suite; s != running {
			m.closeExecutors()
			running = s
		}
		m.runCase(ctx, c)
		if m.o.Save != nil && time.Since(saved) >= m.o.SaveEvery {
			m.finish(true)
			if err := m.o.Save(m.files); err != nil {
				return fmt.Errorf("save what is complete: %w", err)
			}
			saved = time.Now()
		}
	}
	return nil
}

// finish dates the files.
func (m *run) finish(interrupted bool) {
	for _, f := range m.files {
		f.Finished, f.Interrupted = time.Now().UTC(), interrupted
	}
}

// runCase runs one case: all workers in turns, or one after another if each round is a
// process of its own.
func (m *run) runCase(ctx context.Context, entries []*suite.Entry) {
	m.weight = weight(entries)
	m.steps, m.done = m.length(entries), 0
	share := m.share(m.weight)
	began := time.Now()
	var workers []*worker
	chosen := m.choose(entries, share)
	for i, e := range entries {
		for v := range m.o.Variants {
			w := &worker{run: m, entry: e, variant: v, row: newRow(e, m.env()), every: 1}
			workers = append(workers, w)
			switch reason := m.reason(e); {
			case reason != "":
				w.skip(reason)
			case !chosen[i]:
				w.skip(fmt.Sprintf("no time was left: everything had to end after %v; run it alone", m.o.Limit))
			case ctx.Err() == nil:
				w.enter(ctx, part(share, len(entries)*len(m.o.Variants)))
			}
		}
	}
	m.turns(ctx, workers, began, share)
	for _, w := range workers {
		w.leave(ctx)
	}
	m.left -= m.weight
	m.spent(entries[0].Suite, chosen, time.Since(began))
	if ctx.Err() != nil {
		return // an incomplete case is worth nothing
	}
	for v := range m.o.Variants {
		var rows []*result.Row
		for _, w := range workers {
			if w.variant == v {
				rows = append(rows, w.row)
				m.files[v].Rows = append(m.files[v].Rows, *w.row)
			}
		}
		m.o.Watch.Finish(m.o.Variants[v].Name, rows)
	}
}

// env is for asking entries whether they can run.
func (m *run) env() *suite.Env {
	return &suite.Env{Addresses: m.o.Addresses, Quick: m.o.Quick, Log: slog.New(slog.DiscardHandler)}
}

// turns lets the workers take turns, until all rounds are done or the share of time
// of the case has been exceeded.
func (m *run) turns(ctx context.Context, workers []*worker, began time.Time, share time.Duration) {
	for round := range m.o.Rounds {
		m.done = m.steps - m.ahead(workers, m.o.Rounds-round)
		if share > 0 && round >= fewRounds && time.Since(began) > share {
			return
		}
		for _, i := range m.random.Perm(len(workers)) {
			if w := workers[i]; w.running() && ctx.Err() == nil {
				m.step(w, fmt.Sprintf("round %d of %d", round+1, m.o.Rounds), 1)
				m.order++
				w.round(ctx, m.order)
			}
		}
	}
}

// ahead returns how many steps are left when the workers that run have so many rounds:
// those that failed or were skipped have none.
func (m *run) ahead(workers []*worker, rounds int) float64 {
	running := 0
	for _, w := range workers {
		if w.running() {
			running++
		}
	}
	return float64(running * rounds)
}

// fewRounds can be told apart from as many others: a case has them even if that takes
// more than its share of the time.
const fewRounds = 4

const (
	freshWeight = 10 // of an entry that starts anew for every round
	overdraft   = 6  // a part of the limit: in so much more, what is left is compared as briefly as possible
)

// weight returns how many parts of the time the entries of a case get.
func weight(entries []*suite.Entry) int {
	sum := 0
	for _, e := range entries {
		if fresh(e) {
			sum += freshWeight
		} else {
			sum++
		}
	}
	return sum
}

// share returns how much of the time that is left belongs to a case of that weight,
// 0 if there is no limit, negative if no time is left. When the limit has just passed,
// it is the shortest time: a case that is last would never run on a busy machine.
func (m *run) share(weight int) time.Duration {
	if m.o.Limit == 0 {
		return 0
	}
	left := m.o.Limit - time.Since(m.began)
	switch {
	case left <= -m.o.Limit/overdraft:
		return -1
	case left <= 0:
		return 1
	}
	return max(left*time.Duration(weight)/time.Duration(m.left), 1)
}

// part returns a share divided by n, and the shortest time if that is nothing: 0 would mean that
// there is no limit.
func part(share time.Duration, n int) time.Duration {
	if share <= 0 {
		return share
	}
	return max(share/time.Duration(n), 1)
}

// length returns how many steps a case has at most: a round is one.
func (m *run) length(entries []*suite.Entry) float64 {
	sum := 0
	for _, e := range entries {
		sum += m.o.Rounds
		if !fresh(e) {
			sum += warmUps
		}
	}
	return float64(sum * len(m.o.Variants))
}

// step tells that a worker begins something that takes as long as so many rounds.
func (m *run) step(w *worker, doing string, rounds float64) {
	part := func(done float64) float64 {
		return (float64(m.entries-m.left) + float64(m.weight)*min(done/m.steps, 1)) / float64(m.entries)
	}
	m.o.Watch.Step(w.entry.Name(), doing, part(m.done), part(m.done+rounds))
	m.done += rounds
}

// executor returns the executor of a worker: one process for each contender of a suite,
// or a new one.
func (m *run) executor(ctx context.Context, w *worker) (Executor, error) {
	variant := m.o.Variants[w.variant]
	key := variant.Name + "\n" + w.entry.Contender
	if r := m.executors[key]; r != nil && !fresh(w.entry) {
		return r, nil
	}
	r, err := variant.Launch(ctx)
	if err == nil && !fresh(w.entry) {
		m.executors[key] = r
	}
	return r, err
}

// drop ends an executor that is of no more use.
func (m *run) drop(r Executor) {
	for key, known := range m.executors {
		if known == r {
			delete(m.executors, key)
		}
	}
	_ = r.Close() // nothing it says changes the results
}

func (m *run) closeExecutors() {
	for _, r := range m.executors {
		_ = r.Close() // as above
	}
	clear(m.executors)
}

func newRow(e *suite.Entry, env *suite.Env) *result.Row {
	row := &result.Row{
		Suite: e.Suite, Case: e.Case, Contender: e.Contender, Durability: string(e.Durability), Transport: string(e.Reached(env)),
		About: e.About, Note: e.Note, Op: e.Op, Items: max(e.Items, 1), BytesPerOp: e.BytesPerOp,
		Clients: max(e.Clients, 1), Primary: e.Primary, Scale: e.Scale, Status: result.OK,
	}
	if row.Op == "" {
		row.Op = "op"
	}
	if c := e.Curve; c != nil {
		row.Curve = &result.Curve{Name: c.Name, Axis: c.Axis, X: c.X}
	}
	return row
}
