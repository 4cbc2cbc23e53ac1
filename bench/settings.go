package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/runner"
)

// settings are the flags of every command that measures.
type settings struct {
	contenders []string
	rounds     int
	time       time.Duration
	limit      time.Duration
	timeout    time.Duration
	quick      bool
	scale      bool
	inProcess  bool
	dir        string
	addresses  map[string]string

	keep func(*result.File) error // what is complete so far; nil keeps nothing before the end
}

func (s *settings) add(c *cobra.Command) {
	f := c.Flags()
	f.StringSliceVar(&s.contenders, "contenders", nil, "only these, by name or pattern: 'mainstem-*,bbolt'")
	f.IntVar(&s.rounds, "rounds", 0, fmt.Sprintf("rounds of each entry (%d; quick %d, scale %d)", runner.DefaultRounds, runner.QuickRounds, runner.ScaleRounds))
	f.DurationVar(&s.time, "time", 0, fmt.Sprintf("time of one round (%v; quick at most %v)", runner.DefaultTime, runner.QuickTime))
	f.DurationVar(&s.limit, "limit", 0, fmt.Sprintf("time of everything, shared among the entries (none; quick %v)", runner.QuickLimit))
	f.DurationVar(&s.timeout, "timeout", 0, fmt.Sprintf("of one step of an entry (%v; quick %v, scale %v)", runner.DefaultTimeout, runner.QuickTimeout, runner.ScaleTimeout))
	f.BoolVar(&s.quick, "quick", false, "short rounds and small data: everything in under three minutes")
	f.BoolVar(&s.scale, "scale", false, "the scale tests, and only them")
	f.BoolVar(&s.inProcess, "in-process", false, "run contenders in this process, for profiles; their memory is then shared")
	f.StringVar(&s.dir, "dir", "", "where contenders keep their files: a directory on the disk to measure (the system's temporary directory)")
	s.addAddresses(c)
}

func (s *settings) addAddresses(c *cobra.Command) {
	c.Flags().StringToStringVar(&s.addresses, "address", nil, "servers by kind: redis=127.0.0.1:6379, etcd=..., kafka=..., postgres=postgres://...")
}

// options returns the options of a run of this build.
func (s *settings) options(p *program, selection []string, watch runner.Watcher) (runner.Options, error) {
	launch, err := s.launcher(p)
	return runner.Options{
		Suites: p.suites(), Select: selection, Contenders: s.contenders,
		Rounds: s.rounds, Time: s.time, Limit: s.limit, Timeout: s.timeout, Quick: s.quick, Scale: s.scale,
		Dir: s.dir, Addresses: s.addresses, Watch: watch,
		Variants: []runner.Variant{{Launch: launch}},
	}, err
}

func (s *settings) launcher(p *program) (func(context.Context) (runner.Executor, error), error) {
	if s.inProcess {
		return func(context.Context) (runner.Executor, error) { return runner.NewLocal(p.suites(), quietLog()), nil }, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return launchOf(self), nil
}

// launchOf returns what starts the contenders of a build of the bench.
func launchOf(build string) func(context.Context) (runner.Executor, error) {
	return func(ctx context.Context) (runner.Executor, error) {
		p, err := runner.Launch(ctx, build)
		if err != nil {
			return nil, err
		}
		return p, nil
	}
}

// measure does one run. Entries that failed are rows of the file, not errors.
func (s *settings) measure(ctx context.Context, p *program, selection []string) (*result.File, error) {
	watch := newProgress(p)
	defer watch.close()
	o, err := s.options(p, selection, watch)
	if err != nil {
		return nil, err
	}
	var keeping error
	if s.keep != nil {
		o.Save = func(files []*result.File) error {
			files[0].Settings.InProcess = s.inProcess
			keeping = s.keep(files[0])
			return keeping
		}
	}
	files, err := runner.Run(ctx, o)
	switch {
	case keeping != nil:
		return nil, keeping
	case err != nil:
		return nil, usage(err)
	}
	files[0].Settings.InProcess = s.inProcess
	return files[0], nil
}

// ending returns the error with which a command ends that measured f.
func ending(f *result.File) error {
	if f.Interrupted {
		return &statusError{exitInterrupted, errors.New("interrupted: only what was complete is kept")}
	}
	failed := 0
	for i := range f.Rows {
		if f.Rows[i].Status == result.Failed {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d entries failed", failed, len(f.Rows))
	}
	return nil
}

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }
