package runner

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/suite"
)

// The defaults of [Options]. Many short rounds say more than a few long ones: on a
// machine with other work, some of them are left alone.
const (
	DefaultRounds  = 20
	DefaultTime    = 100 * time.Millisecond
	DefaultTimeout = 2 * time.Minute
	ScaleTimeout   = 30 * time.Minute
	ScaleRounds    = 4 // fewer tell nothing
	QuickRounds    = 6
	QuickTime      = 20 * time.Millisecond
	QuickLimit     = 130 * time.Second
	QuickTimeout   = 20 * time.Second

	DefaultSaveEvery = 30 * time.Second
)

// Options says what to run and how. Zero fields have the defaults of the mode:
// quick, scale, or neither.
type Options struct {
	Suites     []suite.Suite
	Select     []string // "suite", "suite/case" or a pattern such as "kv/set*"; none means all
	Contenders []string // names or patterns; none means all

	Rounds  int           // of each entry
	Time    time.Duration // that one round aims at
	Limit   time.Duration // for everything; 0 means none, but in quick mode
	Timeout time.Duration // for one entry in one call, start and rounds
	Quick   bool
	Scale   bool // run the scale entries, and only them

	Dir       string            // where contenders keep their files: the disk that is measured
	Addresses map[string]string // servers, by kind
	Variants  []Variant         // at least one
	Watch     Watcher           // nil is told nothing

	// Save, if not nil, is given what is complete, as files that say that they were
	// interrupted: after a case, but not again within SaveEvery. Its error ends the run.
	Save      func([]*result.File) error
	SaveEvery time.Duration // default 30 s
}

// Variant is one build of the bench.
type Variant struct {
	Name string // "", or what tells it from the others
	// Launch starts the process of a contender.
	Launch func(ctx context.Context) (Executor, error)
}

// Watcher is told how the run goes, from one goroutine.
type Watcher interface {
	// Step is called when something begins that takes time: entry is
	// suite/case/contender, part is how much of everything is done, and until how much
	// will be when the step has ended.
	Step(entry, doing string, part, until float64)
	// Finish is called when a case is done, with its rows of one variant.
	Finish(variant string, rows []*result.Row)
}

func (o Options) withDefaults() Options {
	pick := func(quick, scale, full int) int {
		switch {
		case o.Quick:
			return quick
		case o.Scale:
			return scale
		}
		return full
	}
	if o.Rounds == 0 {
		o.Rounds = pick(QuickRounds, ScaleRounds, DefaultRounds)
	}
	if o.Time == 0 {
		o.Time = time.Duration(pick(int(QuickTime), int(DefaultTime), int(DefaultTime)))
	}
	if o.Timeout == 0 {
		o.Timeout = time.Duration(pick(int(QuickTimeout), int(ScaleTimeout), int(DefaultTimeout)))
	}
	if o.Limit == 0 && o.Quick {
		o.Limit = QuickLimit
	}
	if o.SaveEvery == 0 {
		o.SaveEvery = DefaultSaveEvery
	}
	if o.Watch == nil {
		o.Watch = nobody{}
	}
	return o
}

type nobody struct{}

func (nobody) Step(string, string, float64, float64) {}
func (nobody) Finish(string, []*result.Row)          {}

func (o *Options) validate() error {
	var errs []error
	if o.Rounds < 0 || o.Rounds > result.MaxSamples {
		errs = append(errs, fmt.Errorf("%d rounds: want 1 to %d", o.Rounds, result.MaxSamples))
	}
	if o.Time < 0 || o.Limit < 0 || o.Timeout < 0 {
		errs = append(errs, errors.New("a time is negative"))
	}
	if o.Quick && o.Scale {
		errs = append(errs, errors.New("quick and scale exclude each other"))
	}
	if len(o.Variants) == 0 {
		errs = append(errs, errors.New("no variant to run"))
	}
	return errors.Join(errs...)
}

// Selected returns the entries that o asks for, case by case, in the order of the
// suites. A pattern that matches nothing is an error, a mistake in typing, and so is a
// selection without an entry of the mode.
func (o *Options) Selected() ([][]*suite.Entry, error) {
	var cases [][]*suite.Entry
	at := map[string]int{}
	selects, contenders := newMatcher(o.Select), newMatcher(o.Contenders)
	for _, s := range o.Suites {
		for i := range s.Entries {
			e := &s.Entries[i]
			name := e.Suite + "/" + e.Case
			// Both are asked, so that both know what they matched.
			selected, wanted := selects.match(name), contenders.match(e.Contender)
			if !selected || !wanted || e.Scale != o.Scale {
				continue
			}
			k, ok := at[name]
			if !ok {
				k = len(cases)
				at[name] = k
				cases = append(cases, nil)
			}
			cases[k] = append(cases[k], e)
		}
	}
	err := errors.Join(selects.unused("suite or case"), contenders.unused("contender"))
	if err == nil && len(cases) == 0 {
		err = errors.New("nothing to run: what was named are scale tests, which run with --scale only")
		if o.Scale {
			err = errors.New("nothing to run: among what was named are no scale tests, and --scale runs only them")
		}
	}
	return cases, err
}

type matcher struct {
	patterns []string
	used     []bool
}

func newMatcher(patterns []string) *matcher {
	return &matcher{patterns, make([]bool, len(patterns))}
}

// match reports whether one of the patterns matches name or a parent of it.
func (m *matcher) match(name string) bool {
	found := len(m.patterns) == 0
	for i, p := range m.patterns {
		if Matches(p, name) {
			m.used[i], found = true, true
		}
	}
	return found
}

func (m *matcher) unused(what string) error {
	i := slices.Index(m.used, false)
	if i < 0 {
		return nil
	}
	return fmt.Errorf("no %s matches %q: see bench list", what, m.patterns[i])
}

// Matches reports whether a pattern matches a name of parts separated by slashes,
// or the parts it begins with: "kv", "kv/list", "kv/list*" and "*/set" match
// "kv/list/page" or "kv/set".
func Matches(pattern, name string) bool {
	for n := name; ; {
		if ok, err := path.Match(pattern, n); ok && err == nil {
			return true
		}
		i := strings.LastIndexByte(n, '/')
		if i < 0 {
			return false
		}
		n = n[:i]
	}
}
