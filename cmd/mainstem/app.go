package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mainstemdev/mainstem/server"
)

// Main is the program without its process, so that tests can run it in theirs.
// A Main runs one command line.
type Main struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Env    []string // as os.Environ returns it

	// Terminal says that a person watches Stderr: progress is shown there.
	Terminal bool
	// LocalServer is the URL that is tried when no log is named.
	LocalServer string

	flags   globals
	out     *bufio.Writer
	started bool  // the command line was understood
	ctxErr  error // why the command's context ended, if it did
}

// globals are the flags of every command.
type globals struct {
	log       string
	json      bool
	token     string
	tokenFile string
	tlsCA     string
	insecure  bool
	timeout   time.Duration
}

// NewMain returns the Main of this process.
func NewMain() *Main {
	return &Main{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ(),
		Terminal:    term.IsTerminal(int(os.Stderr.Fd())),
		LocalServer: "http://" + server.DefaultListen,
	}
}

var errInterrupted = errors.New("interrupted")

// interruptible returns a context that ends with the first SIGINT or SIGTERM. A
// second one ends the process at once. A closed pipe becomes a write error
// instead of a signal, so that the log is closed properly.
func interruptible(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		<-signals
		cancel(errInterrupted)
		<-signals
		os.Exit(exitInterrupted)
	}()
	return ctx
}

// Run runs the command line args and returns the exit status.
func (m *Main) Run(ctx context.Context, args []string) int {
	m.out = bufio.NewWriter(m.Stdout)
	root := m.root()
	root.SetArgs(args)
	root.SetIn(m.Stdin)
	root.SetOut(m.out)
	root.SetErr(m.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if u := (usageError{}); err != nil && !m.started && !errors.As(err, &u) {
		err = usageError{cmd, err}
	}
	if ferr := m.out.Flush(); err == nil {
		err = ferr
	}
	if ctx.Err() != nil {
		m.ctxErr = context.Cause(ctx)
	}
	return m.finish(err)
}

func (m *Main) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "mainstem",
		Short: "One durable log with many views: buckets, event streams, topics",
		Long: `Mainstem is the durable backbone of a service: one ordered, atomic log, seen as
key-value buckets, event streams and topics. Run it as a server (mainstem serve),
or point any command at a directory: mainstem kv put --log ./data users 42 Ada

Commands also read MAINSTEM_LOG, MAINSTEM_TOKEN or MAINSTEM_TOKEN_FILE,
MAINSTEM_TLS_CA and MAINSTEM_TIMEOUT. What they print, and exit statuses:
mainstem help output.`,
		Version:       server.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // group names the one that is no command
		RunE:          group,
	}
	f := root.PersistentFlags()
	f.StringVar(&m.flags.log, "log", "", "`directory`, memory:, http://, nats:// or postgres:// URL, nats:embedded?store=DIR (default $MAINSTEM_LOG, else a server on 127.0.0.1:8080, else ./mainstem-data)")
	f.BoolVar(&m.flags.json, "json", false, "write one JSON object per line")
	f.StringVar(&m.flags.token, "token", "", "bearer `token` for the server")
	f.StringVar(&m.flags.tokenFile, "token-file", "", "`file` that holds the bearer token")
	f.StringVar(&m.flags.tlsCA, "tls-ca", "", "PEM `file` of the authorities to trust instead of the system's")
	f.BoolVar(&m.flags.insecure, "insecure", false, "send the token to another machine without TLS")
	f.DurationVar(&m.flags.timeout, "timeout", 0, "give up after this `duration` (default never)")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{cmd, err} })
	root.AddGroup(&cobra.Group{ID: "views", Title: "Views:"}, &cobra.Group{ID: "log", Title: "Server and log:"})
	for _, c := range []*cobra.Command{m.kv(), m.event(), m.topic(), m.actor(), m.alerts()} {
		c.GroupID = "views"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{m.serve(), m.kafka(), m.check(), m.clock(), m.backup(), m.restore(), m.copy(), m.stats(), m.version()} {
		c.GroupID = "log"
		root.AddCommand(c)
	}
	root.AddCommand(outputHelp())
	m.markStart(root)
	return root
}

// markStart makes every command note that it began: errors before that are
// mistakes in the command line.
func (m *Main) markStart(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, a []string) error {
			m.started = true
			return run(cmd, a)
		}
	}
	for _, sub := range c.Commands() {
		m.markStart(sub)
	}
}

// group is what a command does that only holds others: without arguments it
// shows its help, and any argument is a misspelt command.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += ", did you mean " + strings.Join(near, " or ") + "?"
	}
	return usageError{cmd, errors.New(text)}
}

// args demands least to most arguments; most < 0 means any number.
func args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if n := len(given); n < least || most >= 0 && n > most {
			return usageError{cmd, fmt.Errorf("%d arguments given; usage: %s", n, cmd.UseLine())}
		}
		return nil
	}
}

// variable returns the value of an environment variable.
func (m *Main) variable(name string) string {
	for i := len(m.Env) - 1; i >= 0; i-- {
		if k, v, _ := strings.Cut(m.Env[i], "="); k == name {
			return v
		}
	}
	return ""
}

// required makes a flag one that must be given.
func required(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagRequired(flag); err != nil {
		panic(err) // the flag does not exist: a mistake in the program
	}
}
