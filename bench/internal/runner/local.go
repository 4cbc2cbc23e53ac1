package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/suite"
)

// Local runs entries in this process. Contenders then share a heap and a
// scheduler: for tests, for profiles, and inside the process of a contender.
type Local struct {
	entries map[string]*suite.Entry
	log     *slog.Logger
	spawns  bool // servers are processes of their own

	open    *suite.Entry
	round   *suite.Round
	servers []spawned // of the open entry
}

// spawned is a server in a process of its own, and what it says to people.
type spawned struct {
	name   string
	stderr *tail
}

// spawn is [suite.Env].Spawn.
func (l *Local) spawn(ctx context.Context, name, dir string) (string, func() error, error) {
	s := spawned{name, new(tail)}
	address, stop, err := spawnServer(ctx, name, dir, s.stderr)
	if err == nil {
		l.servers = append(l.servers, s)
	}
	return address, stop, err
}

// quoted adds to a failure what the servers of the entry said: a client often learns
// less than the log has.
func (l *Local) quoted(err error) error {
	var f *Failure
	if !errors.As(err, &f) || f.Skip {
		return err
	}
	all := *f
	for _, s := range l.servers {
		if said := s.stderr.said(); said != "" {
			all.Reason += "\n" + s.name + " said: " + said
		}
	}
	return &all
}

// NewLocal returns an executor of the entries of suites.
func NewLocal(suites []suite.Suite, log *slog.Logger) *Local {
	l := &Local{entries: make(map[string]*suite.Entry), log: log}
	for _, s := range suites {
		for i := range s.Entries {
			l.entries[s.Entries[i].Name()] = &s.Entries[i]
		}
	}
	return l
}

// Open starts an entry; see [Executor].
func (l *Local) Open(ctx context.Context, o Opening) error {
	l.servers = nil
	return l.quoted(l.start(ctx, o))
}

func (l *Local) start(ctx context.Context, o Opening) (err error) {
	e := l.entries[o.Entry]
	if e == nil {
		return &Failure{Skip: true, Reason: "this build has no such entry"}
	}
	env := &suite.Env{Dir: o.Dir, Addresses: o.Addresses, Quick: o.Quick, Log: l.log}
	if l.spawns {
		env.Spawn = l.spawn
	}
	if e.Skip != nil {
		if reason := e.Skip(env); reason != "" {
			return &Failure{Skip: true, Reason: reason}
		}
	}
	defer recovered("start", &err)
	r, err := e.Start(ctx, env)
	switch {
	case errors.Is(err, suite.ErrSkip):
		return &Failure{Skip: true, Reason: err.Error()}
	case err != nil:
		return &Failure{Reason: "start: " + err.Error()}
	}
	l.open, l.round = e, r
	return nil
}

// Round does one round; see [Executor].
func (l *Local) Round(ctx context.Context, a Assignment) (Measured, error) {
	m, err := l.measure(ctx, a)
	return m, l.quoted(err)
}

func (l *Local) measure(ctx context.Context, a Assignment) (m Measured, err error) {
	if l.open == nil {
		return Measured{}, &Failure{Reason: "no entry is open"}
	}
	defer recovered("round", &err)
	if l.round.Prepare != nil {
		if err := l.round.Prepare(ctx, a.Ops); err != nil {
			return Measured{}, &Failure{Reason: "prepare: " + err.Error()}
		}
	}
	m, err = l.timed(ctx, a)
	if err != nil {
		return Measured{}, &Failure{Reason: "run: " + err.Error()}
	}
	if l.round.Check != nil {
		if err := l.round.Check(ctx); err != nil {
			return Measured{}, &Failure{Reason: "WRONG ANSWER: " + err.Error()}
		}
	}
	if l.round.Metrics == nil {
		return m, nil
	}
	metrics, err := l.round.Metrics(ctx)
	if err != nil {
		return Measured{}, &Failure{Reason: "metrics: " + err.Error()}
	}
	for _, x := range metrics {
		if math.IsNaN(x.Value) || math.IsInf(x.Value, 0) {
			return Measured{}, &Failure{Reason: fmt.Sprintf("metrics: %s is %v", x.Name, x.Value)}
		}
		m.Metrics = append(m.Metrics, measure(x))
	}
	return m, nil
}

// timed is the part between the two readings of the clock.
func (l *Local) timed(ctx context.Context, a Assignment) (Measured, error) {
	var before, after runtime.MemStats
	runtime.GC()
	rec := suite.NewRecorder(a.Every) // its clock starts: the first part of a curve has no collection in it
	runtime.ReadMemStats(&before)
	began := time.Now()
	err := l.round.Run(ctx, a.Ops, rec)
	elapsed := time.Since(began)
	runtime.ReadMemStats(&after)
	if err != nil {
		return Measured{}, err
	}
	m := Measured{
		Elapsed: elapsed,
		Bytes:   after.TotalAlloc - before.TotalAlloc,
		Allocs:  after.Mallocs - before.Mallocs,
	}
	for _, mark := range rec.Marks() {
		m.Marks = append(m.Marks, result.Mark(mark))
	}
	if n := len(m.Marks); n > 0 && m.Marks[n-1].Done < a.Ops {
		m.Marks = append(m.Marks, result.Mark{Done: a.Ops, Elapsed: max(elapsed, m.Marks[n-1].Elapsed)}) // where the curve ends
	}
	if h := rec.Histogram(); h.TotalCount() > 0 {
		m.Histogram, err = h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	}
	return m, err
}

// Shut closes the open entry; see [Executor].
func (l *Local) Shut(context.Context) error { return l.quoted(l.shut()) }

func (l *Local) shut() (err error) {
	r := l.round
	l.open, l.round = nil, nil
	if r == nil || r.Close == nil {
		return nil
	}
	defer recovered("close", &err)
	if err := r.Close(); err != nil {
		return &Failure{Reason: "close: " + err.Error()}
	}
	return nil
}

// Close closes what is open.
func (l *Local) Close() error { return l.shut() }

// recovered turns the panic of a contender into the failure of its row: it must
// not take along the results of others.
func recovered(what string, err *error) {
	if p := recover(); p != nil {
		*err = &Failure{Reason: fmt.Sprintf("%s: panic: %v\n%s", what, p, debug.Stack()), Broken: true}
	}
}
