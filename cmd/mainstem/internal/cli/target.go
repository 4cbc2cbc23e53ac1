package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/readfile"
	"github.com/mainstemdev/mainstem/server"
)

// Access says what a command does with its log.
type Access bool

// What becomes of a log that does not exist.
const (
	Reading Access = false // it is NotFound
	Writing Access = true  // it is created
)

// probeTime is the default of [Main.ProbeTime].
const probeTime = 2 * time.Second

// Variables that commands read, besides those of the settings of serve. A password is in
// one of these, or in the file that the variable NAME_FILE names.
const (
	ConfigVariable = "MAINSTEM_CONFIG" // names the configuration file when --config does not
	KafkaPassword  = "MAINSTEM_KAFKA_PASSWORD"
	AlertsPassword = "MAINSTEM_ALERTS_PASSWORD" // for an object server or a coordinator
)

// clientVariables are all of them.
var clientVariables = []string{"MAINSTEM_TLS_CA", "MAINSTEM_TIMEOUT", CompletionTime, ConfigVariable, KafkaPassword, KafkaPassword + "_FILE",
	AlertsPassword, AlertsPassword + "_FILE"}

// WithLog opens the log that the command line names, runs do, and closes it. The context
// of do ends with that of cmd, or after --timeout.
func (m *Main) WithLog(cmd *cobra.Command, a Access, do func(ctx context.Context, log mainstem.Log) error) error {
	return m.WithTarget(cmd, func(ctx context.Context, target string, o *server.LogOptions) error {
		o.MustExist = a == Reading
		log, err := server.OpenLog(ctx, target, o)
		if err != nil {
			return err
		}
		err = do(ctx, log)
		if cerr := log.Close(); err == nil {
			err = cerr
		}
		return err
	})
}

// WithTarget runs do with the name of the log that the command line names, such as the URL
// of a server, and how it is opened.
func (m *Main) WithTarget(cmd *cobra.Command, do func(ctx context.Context, target string, o *server.LogOptions) error) error {
	ctx, cancel, err := m.Context(cmd)
	if err != nil {
		return err
	}
	defer cancel()
	o, err := m.LogOptions()
	if err != nil {
		return err
	}
	target, err := m.target(ctx, o.TLSCA)
	if err != nil {
		return err
	}
	return do(ctx, target, o)
}

// CheckEnv returns the error of [Main.LoadEnv]: the settings of serve may stand in the
// environment of any command.
func (m *Main) CheckEnv() error {
	c := m.ServerConfig()
	return m.LoadEnv(&c)
}

// ServerConfig returns the configuration of a server without settings, with all components.
func (m *Main) ServerConfig() server.Config {
	c := server.DefaultConfig()
	if m.Components != nil {
		c.Components = m.Components()
	}
	return c
}

// LoadEnv takes the settings of a server from the environment. A variable with the prefix
// MAINSTEM_ that neither the server nor a command knows is an error.
func (m *Main) LoadEnv(c *server.Config) error { return c.LoadEnv(m.Env, clientVariables...) }

// Context returns the context of a command, bounded by --timeout. It checks what flags and
// variables say about every command; the error is one of [WrongConfig].
func (m *Main) Context(cmd *cobra.Command) (context.Context, context.CancelFunc, error) {
	if err := m.CheckEnv(); err != nil {
		return nil, nil, WrongConfig(err)
	}
	g := &m.Flags
	if v := m.Variable("MAINSTEM_TIMEOUT"); v != "" && !cmd.Flags().Changed("timeout") {
		d, err := time.ParseDuration(v)
		if err != nil {
			return nil, nil, WrongConfig(errors.New("MAINSTEM_TIMEOUT is " + v + ": want a duration such as 30s"))
		}
		g.Timeout = d
	}
	if g.Timeout < 0 {
		return nil, nil, WrongConfig(errors.New("--timeout is negative"))
	}
	if g.Timeout == 0 {
		ctx, cancel := context.WithCancel(cmd.Context())
		return ctx, cancel, nil
	}
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), g.Timeout, &mainstem.DeadlineError{After: g.Timeout})
	return ctx, cancel, nil
}

// target says which log a command works on. It is Unavailable while it is not certain whether
// LocalServer is a server: a write to the directory would be missing there.
func (m *Main) target(ctx context.Context, tlsCA string) (string, error) {
	if named := cmp.Or(m.Flags.Log, m.Variable("MAINSTEM_LOG")); named != "" {
		return named, nil
	}
	if m.LocalServer == "" {
		return server.DefaultLog, nil
	}
	probe, cancel := context.WithTimeout(ctx, cmp.Or(m.ProbeTime, probeTime))
	defer cancel()
	there, err := server.Probe(probe, m.LocalServer, tlsCA)
	switch {
	case ctx.Err() != nil:
		return "", mainstem.Ended(ctx, "open", time.Time{}, "the answer of "+m.LocalServer)
	case errors.Is(err, mainstem.ErrUnavailable):
		return "", Hint(err, "name the log with --log: a directory, or the URL of the server, https:// if it has TLS")
	case err != nil:
		return "", err
	case there:
		return m.LocalServer, nil
	}
	return server.DefaultLog, nil
}

// TLSCA returns the file of the authorities to trust, "" for those of the system.
func (m *Main) TLSCA() string { return cmp.Or(m.Flags.TLSCA, m.Variable("MAINSTEM_TLS_CA")) }

// LogOptions returns how a log is opened, with the credentials that its server asks for.
// What is wrong with them is an error of [WrongConfig].
func (m *Main) LogOptions() (*server.LogOptions, error) {
	g := &m.Flags
	o := &server.LogOptions{
		Insecure: g.Insecure, TLSCA: m.TLSCA(),
		Token: g.Token, Logger: m.Logger(),
	}
	file := g.TokenFile
	if o.Token != "" && file != "" {
		return nil, WrongConfig(errors.New("--token and --token-file exclude each other"))
	}
	if o.Token == "" && file == "" {
		o.Token, file = m.Variable("MAINSTEM_TOKEN"), m.Variable("MAINSTEM_TOKEN_FILE")
	}
	var err error
	if o.Token == "" && file != "" {
		o.Token, err = server.ReadToken(file)
	}
	if err == nil {
		err = server.CheckToken(o.Token)
	}
	if err != nil {
		return nil, WrongConfig(err)
	}
	return o, nil
}

// Password reads a password from where others do not see it: not from a flag, which the
// list of processes would show. It is in file, in the file that the variable called
// name_FILE names, or in the variable called name; "" if there is none.
func (m *Main) Password(file, name string) (string, error) {
	if file = cmp.Or(file, m.Variable(name+"_FILE")); file == "" {
		return m.Variable(name), nil
	}
	b, err := readfile.All(file, readfile.Secret)
	if err != nil {
		return "", fmt.Errorf("password file: %w", err)
	}
	if p := strings.TrimRight(string(b), "\r\n"); p != "" {
		return p, nil
	}
	return "", fmt.Errorf("the password file %s is empty", file)
}

// NoPassword is the error of a command that needs the password called name, and has none.
func NoPassword(name string) error {
	return fmt.Errorf("a user needs a password: name a file with --password-file, or set %s", name)
}

// Logger returns the logger for an engine in this process: its warnings go to standard error.
func (m *Main) Logger() *slog.Logger { return m.LoggerTo(m.Stderr, slog.LevelWarn) }

// LoggerTo returns a logger that writes what has at least a level to out, as text or JSON.
func (m *Main) LoggerTo(out io.Writer, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if m.Flags.JSON {
		return slog.New(slog.NewJSONHandler(out, o))
	}
	return slog.New(slog.NewTextHandler(out, o))
}
