package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/server"
)

// access says what a command does with its log.
type access bool

const (
	reading access = false // a log that does not exist is NotFound
	writing access = true  // it is created
)

// probeTime is how long a command looks for a server when no log is named.
const probeTime = 300 * time.Millisecond

// clientVariables are read by commands, besides those of the settings of serve.
var clientVariables = []string{"MAINSTEM_TLS_CA", "MAINSTEM_TIMEOUT", configVariable, passwordVariable, passwordFileVariable,
	alertsPasswordVariable, alertsPasswordFileVariable}

// withLog opens the log that the command line names, runs do, and closes it.
func (m *Main) withLog(cmd *cobra.Command, a access, do func(ctx context.Context, log mainstem.Log) error) error {
	ctx, cancel, err := m.context(cmd.Context())
	if err != nil {
		return err
	}
	defer cancel()
	log, err := m.open(ctx, a)
	if err != nil {
		return err
	}
	err = do(ctx, log)
	if cerr := log.Close(); err == nil {
		err = cerr
	}
	return err
}

// checkEnv refuses variables that nobody knows. The settings of serve may stand in the same
// environment.
func (m *Main) checkEnv() error {
	c := serveConfig()
	return c.LoadEnv(m.Env, clientVariables...)
}

// context applies what flags and variables say about every command.
func (m *Main) context(parent context.Context) (context.Context, context.CancelFunc, error) {
	if err := m.checkEnv(); err != nil {
		return nil, nil, configError{err}
	}
	g := &m.flags
	if v := m.variable("MAINSTEM_TIMEOUT"); v != "" && g.timeout == 0 {
		d, err := time.ParseDuration(v)
		if err != nil {
			return nil, nil, configError{errors.New("MAINSTEM_TIMEOUT is " + v + ": want a duration such as 30s")}
		}
		g.timeout = d
	}
	if g.timeout < 0 {
		return nil, nil, configError{errors.New("--timeout is negative")}
	}
	if g.timeout == 0 {
		ctx, cancel := context.WithCancel(parent)
		return ctx, cancel, nil
	}
	ctx, cancel := context.WithTimeoutCause(parent, g.timeout, &mainstem.DeadlineError{After: g.timeout})
	return ctx, cancel, nil
}

func (m *Main) open(ctx context.Context, a access) (mainstem.Log, error) {
	o := &server.LogOptions{MustExist: a == reading, Logger: m.logger()}
	if err := m.credentials(o); err != nil {
		return nil, err
	}
	return server.OpenLog(ctx, m.target(ctx, o.TLSCA), o)
}

// target says which log a command works on.
func (m *Main) target(ctx context.Context, tlsCA string) string {
	if m.flags.log != "" {
		return m.flags.log
	}
	if v := m.variable("MAINSTEM_LOG"); v != "" {
		return v
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if m.LocalServer != "" && server.Probe(ctx, m.LocalServer, tlsCA) {
		return m.LocalServer
	}
	return server.DefaultLog
}

// credentials fills in what a server asks for.
func (m *Main) credentials(o *server.LogOptions) (err error) {
	g := &m.flags
	o.Insecure = g.insecure
	o.TLSCA = first(g.tlsCA, m.variable("MAINSTEM_TLS_CA"))
	o.Token = g.token
	file := g.tokenFile
	if o.Token != "" && file != "" {
		return configError{errors.New("--token and --token-file exclude each other")}
	}
	if o.Token == "" && file == "" {
		o.Token, file = m.variable("MAINSTEM_TOKEN"), m.variable("MAINSTEM_TOKEN_FILE")
	}
	if o.Token == "" && file != "" {
		if o.Token, err = server.ReadToken(file); err != nil {
			return configError{err}
		}
	}
	if err := server.CheckToken(o.Token); err != nil {
		return configError{err}
	}
	return nil
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// logger passes on what an embedded engine has to warn of.
func (m *Main) logger() *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelWarn}
	if m.flags.json {
		return slog.New(slog.NewJSONHandler(m.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(m.Stderr, o))
}

// exists reports whether there is something called path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
