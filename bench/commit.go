package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem/bench/internal/compare"
	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/runner"
)

// Comparisons of commits take many short rounds: on a machine with other work, some
// of them are left alone.
const (
	commitRounds = 40
	commitTime   = 10 * time.Millisecond
)

// isCommit reports whether git knows a commit of that name.
func isCommit(ctx context.Context, name string) bool {
	return !strings.HasPrefix(name, "-") && exec.CommandContext(ctx, "git", "rev-parse", "--verify", "--quiet", name+"^{commit}").Run() == nil
}

// buildCommit builds the bench of a commit in a work tree of its own below dir.
func (p *program) buildCommit(ctx context.Context, commit, dir string) (program string, remove func(), err error) {
	tree := filepath.Join(dir, "tree")
	git := func(ctx context.Context, args ...string) error {
		c := exec.CommandContext(ctx, "git", args...)
		c.Stderr = p.stderr
		return c.Run()
	}
	if err := git(ctx, "worktree", "add", "--quiet", "--detach", tree, commit); err != nil {
		return "", nil, fmt.Errorf("check out %s: %w", commit, err)
	}
	remove = func() {
		// Also after an interrupt: git would remember the tree.
		_ = git(context.WithoutCancel(ctx), "worktree", "remove", "--force", tree)
	}
	program = filepath.Join(dir, "bench-before")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = filepath.Join(tree, "bench")
	build.Env = append(os.Environ(), "GOWORK=off")
	build.Stderr = p.stderr
	if err := build.Run(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build the bench of %s: %w", commit, err)
	}
	return program, remove, nil
}

// compareCommit runs the bench of a commit against this one, in turns.
func (p *program) compareCommit(ctx context.Context, s *settings, commit string, selection []string, t compare.Thresholds) (compare.Report, error) {
	dir, err := os.MkdirTemp("", "bench-commit-*")
	if err != nil {
		return compare.Report{}, err
	}
	defer os.RemoveAll(dir)
	before, remove, err := p.buildCommit(ctx, commit, dir)
	if err != nil {
		return compare.Report{}, err
	}
	defer remove()
	self, err := os.Executable()
	if err != nil {
		return compare.Report{}, err
	}
	variants := []runner.Variant{{Name: commit, Launch: launchOf(before)}, {Name: "now", Launch: launchOf(self)}}
	old, new, err := p.raceVariants(ctx, s, variants, selection)
	if err != nil {
		return compare.Report{}, err
	}
	r := compare.Files(old, new, t)
	again := r.Suspects()
	if len(again) == 0 {
		return r, nil
	}
	fmt.Fprintf(p.stderr, "measuring again what looks worse: %s\n", strings.Join(again, ", "))
	old2, new2, err := p.raceVariants(ctx, s, variants, again)
	if err != nil {
		return compare.Report{}, err
	}
	return r.Confirm(compare.Files(old2, new2, t)), nil
}

func (p *program) raceVariants(ctx context.Context, s *settings, variants []runner.Variant, selection []string) (old, new *result.File, err error) {
	watch := newProgress(p)
	defer watch.close()
	o, err := s.options(p, selection, watch)
	if err != nil {
		return nil, nil, err
	}
	o.Variants = variants
	if o.Rounds == 0 {
		o.Rounds = commitRounds
	}
	if o.Time == 0 {
		o.Time = commitTime
	}
	if o.Contenders == nil {
		o.Contenders = ours(o)
	}
	files, err := runner.Run(ctx, o)
	if err != nil {
		return nil, nil, usage(err)
	}
	if files[0].Interrupted {
		return nil, nil, &statusError{exitInterrupted, errors.New("interrupted")}
	}
	return files[0], files[1], nil
}

// ours returns the contenders that a commit can change: the peers stay what they are.
func ours(o runner.Options) []string {
	var names []string
	cases, _ := o.Selected() // a mistake shows when it runs
	for _, c := range cases {
		for _, e := range c {
			row := result.Row{Contender: e.Contender}
			if row.Ours() && !slices.Contains(names, e.Contender) {
				names = append(names, e.Contender)
			}
		}
	}
	return names
}
