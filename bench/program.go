package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mainstemdev/mainstem/bench/internal/runner"
	"github.com/mainstemdev/mainstem/bench/suite"
)

// program is the command line, with what it touches of the outside.
type program struct {
	suites   func() []suite.Suite
	stdin    io.Reader
	stdout   io.Writer
	stderr   io.Writer
	terminal bool // a person watches stderr
}

func newProgram() *program {
	return &program{
		suites: suites, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		terminal: term.IsTerminal(int(os.Stderr.Fd())),
	}
}

// The exit statuses.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitSlower      = 3
	exitInterrupted = 130
)

// statusError is an error with an exit status.
type statusError struct {
	status int
	cause  error
}

func (e *statusError) Error() string { return e.cause.Error() }
func (e *statusError) Unwrap() error { return e.cause }

func usage(err error) error {
	if err == nil {
		return nil
	}
	return &statusError{exitUsage, err}
}

// run runs one command line and returns the exit status.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(p.stderr, "bench:", err)
	var s *statusError
	if errors.As(err, &s) {
		return s.status
	}
	return exitFailed
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "bench",
		Short:         "Measure every engine and peer on your own hardware",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          func(c *cobra.Command, args []string) error { return usage(cobra.NoArgs(c, args)) },
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.AddCommand(p.list(), p.runCases(), p.report(), p.plot(), p.baseline(), p.compare(), p.soak(), p.contender(), p.server())
	for _, c := range root.Commands() {
		check := c.Args
		c.Args = func(c *cobra.Command, args []string) error { return usage(check(c, args)) }
	}
	return root
}

// contender is the process of one contender: see [runner.Serve].
func (p *program) contender() *cobra.Command {
	return &cobra.Command{
		Use: runner.ContenderCommand, Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			// What a contender prints must not end up among the answers.
			os.Stdout = os.Stderr
			log := slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
			return runner.Serve(c.Context(), p.stdin, p.stdout, p.suites(), log)
		},
	}
}

// server is the process of a server: see [runner.ServeServer].
func (p *program) server() *cobra.Command {
	return &cobra.Command{
		Use: runner.ServerCommand, Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			os.Stdout = os.Stderr
			return runner.ServeServer(c.Context(), args[0], args[1], p.stdin, p.stdout, p.suites())
		},
	}
}
