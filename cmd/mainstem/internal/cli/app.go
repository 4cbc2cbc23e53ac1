package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
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
	// Person says that a person is at Stdin: questions are asked there, if Terminal is set too.
	Person bool
	// LocalServer is the URL that is tried when no log is named.
	LocalServer string
	// ProbeTime is how long LocalServer may take to answer. 0: 2 s.
	ProbeTime time.Duration
	// Components returns those of a server. Their settings may stand in the environment.
	Components func() []server.Component

	// Flags are set when a command runs.
	Flags Flags
	// Out is Stdout with a buffer. Run makes it, and flushes it in the end.
	Out *bufio.Writer

	started bool  // the command line was understood
	ctxErr  error // why the command's context ended, if it did
}

// Flags are the flags of every command.
type Flags struct {
	Log       string // "" if none is named
	JSON      bool
	Token     string
	TokenFile string
	TLSCA     string
	Insecure  bool
	Timeout   time.Duration // 0: none
}

// New returns the Main of this process.
func New() *Main {
	return &Main{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ(),
		Terminal:    term.IsTerminal(int(os.Stderr.Fd())),
		Person:      term.IsTerminal(int(os.Stdin.Fd())),
		LocalServer: "http://" + server.DefaultListen,
	}
}

// ErrInterrupted is the cause of the context of a command that a signal has ended.
var ErrInterrupted = errors.New("interrupted")

// Run runs the command line args with the commands that Root has returned, and returns the
// exit status. ctx ends the command; if its cause is ErrInterrupted, a signal did.
func (m *Main) Run(ctx context.Context, root *cobra.Command, args []string) int {
	m.Out = bufio.NewWriter(m.Stdout)
	root.SetArgs(args)
	root.SetIn(m.Stdin)
	root.SetOut(m.Out)
	root.SetErr(m.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if u := (usageError{}); err != nil && !m.started && !errors.As(err, &u) {
		err = WrongUsage(cmd, err)
	}
	if ferr := m.Out.Flush(); err == nil {
		err = ferr
	}
	if ctx.Err() != nil {
		m.ctxErr = context.Cause(ctx)
	}
	return m.Report(err)
}

// Root returns the program: the commands of the views, those of the server and the log,
// version and help output, and the flags of them all.
func (m *Main) Root(views, log []*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "mainstem",
		Short: "One durable log with many views: buckets, event streams, topics",
		Long: `Mainstem is the durable backbone of a service: one ordered, atomic log, seen as
key-value buckets, event streams and topics. Run it as a server (mainstem serve),
or point any command at a directory: mainstem kv put --log ./data users 42 Ada

Without --log and MAINSTEM_LOG a command uses the server on 127.0.0.1:8080, or the
directory ./mainstem-data if nobody listens there or another program answers. It fails
if something there gives no answer or wants TLS: then name the log.

Commands also read MAINSTEM_LOG, MAINSTEM_TOKEN or MAINSTEM_TOKEN_FILE,
MAINSTEM_TLS_CA and MAINSTEM_TIMEOUT. What they print, and exit statuses:
mainstem help output.`,
		Version:       server.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // group names the one that is no command
		RunE:          Group,
	}
	f := root.PersistentFlags()
	f.StringVar(&m.Flags.Log, "log", "", "`directory`, memory:, http://, nats:// or postgres:// URL, nats:embedded?store=DIR (default $MAINSTEM_LOG, else a server on 127.0.0.1:8080, else ./mainstem-data)")
	f.BoolVar(&m.Flags.JSON, "json", false, "write one JSON object per line")
	f.StringVar(&m.Flags.Token, "token", "", "bearer `token` for the server")
	f.StringVar(&m.Flags.TokenFile, "token-file", "", "`file` that holds the bearer token")
	f.StringVar(&m.Flags.TLSCA, "tls-ca", "", "PEM `file` of the authorities to trust instead of the system's")
	f.BoolVar(&m.Flags.Insecure, "insecure", false, "send the token to another machine without TLS")
	f.DurationVar(&m.Flags.Timeout, "timeout", 0, "give up after this `duration`, 0: never (default $MAINSTEM_TIMEOUT, else never)")
	root.SetFlagErrorFunc(WrongUsage)
	addGroup(root, "views", "Views:", views)
	addGroup(root, "log", "Server and log:", append(log, m.version()))
	root.AddCommand(outputHelp())
	m.markStart(root)
	return root
}

func addGroup(root *cobra.Command, id, title string, commands []*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, c := range commands {
		c.GroupID = id
	}
	root.AddCommand(commands...)
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

// Variable returns the value of an environment variable, "" if it is not set.
func (m *Main) Variable(name string) string {
	for i := len(m.Env) - 1; i >= 0; i-- {
		if k, v, _ := strings.Cut(m.Env[i], "="); k == name {
			return v
		}
	}
	return ""
}
