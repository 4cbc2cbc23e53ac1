// Package servecmd is mainstem serve, which runs a server with its components.
//
//	mainstem serve --log /var/lib/mainstem --kafka 127.0.0.1:19092
package servecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mainstemdev/mainstem/actor/cluster/clusterserver"
	"github.com/mainstemdev/mainstem/alert/alertserver"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/internal/scavenge"
	"github.com/mainstemdev/mainstem/server"
	viewhttp "github.com/mainstemdev/mainstem/wire/http"
	"github.com/mainstemdev/mainstem/wire/http/viewserver"
	"github.com/mainstemdev/mainstem/wire/kafka/kafkaserver"
)

// commands has the methods of serve.
type commands struct{ *cli.Main }

// New returns mainstem serve.
func New(program *cli.Main) *cobra.Command {
	m := commands{program}
	var file string
	given := m.ServerConfig() // what the flags say
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server: a log in a directory, served over HTTP and to Kafka clients. Clients
of HTTP are the other commands (--log http://127.0.0.1:8080), Go programs, and anything
that speaks Connect or gRPC. Tables, events, topics and commits over all of them are
there as JSON below /v1/, for programs in every language: /v1/openapi.yaml describes
them. /healthz, /readyz and /metrics (Prometheus) are on the same address. Clients of
Kafka in any language connect to 127.0.0.1:9092 and find the topics, and the event
stores as topics event.STORE that can be read. Of several servers on one log, in NATS
or PostgreSQL, one serves Kafka: give the others --kafka ''.

With --omnibus it keeps alert tables, runs their automations, and serves them to clients
of IBM's OMNIbus over HTTP (/objectserver/restapi/) at that address; --omnibus-users
says who may do what. --alert-syslog and --alert-webhook make alerts of syslog messages
and of what Prometheus and its Alertmanager send.

Every flag is also a key of the YAML file named by --config, and an environment
variable: --max-value, max-value: and MAINSTEM_MAX_VALUE are one setting. Flags win
over variables, variables over the file. A name that nobody knows is an error.

The server listens on this machine only. To let others in, give it a certificate and
a token, for Kafka clients --kafka-sasl and users (mainstem kafka user), for alerts
--omnibus-users (mainstem alerts user); it refuses anything less unless --insecure says
that the network is trusted. Kafka clients connect anew to the address that the server
tells them: --kafka-advertise says which.

--memory-limit and --memory-budget bound the memory that the server takes, and what all
clients share of it: the rest waits. docs/memory.md says how it divides.

SIGTERM or SIGINT stops it: followers end, running requests may finish within
--stop-timeout. A second signal ends it at once; nothing acknowledged is lost.`,
		Example: `  mainstem serve
  mainstem serve --log /var/lib/mainstem --durability interval=50ms
  mainstem serve --listen 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem --token-file token
  mainstem serve --kafka 127.0.0.1:19092 --kafka-advertise localhost:19092
  mainstem serve --omnibus 127.0.0.1:8081 --alert-server-name AGG1
  mainstem serve --omnibus 127.0.0.1:8081 --alert-syslog 127.0.0.1:1514 --alert-webhook 127.0.0.1:9099
  mainstem serve --config mainstem.yaml --log-level debug`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := m.readConfig(cmd, file)
			if err != nil {
				return cli.WrongConfig(err)
			}
			return m.runServer(cmd.Context(), c)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "YAML `file` of settings (default $MAINSTEM_CONFIG)")
	for _, s := range given.Settings() {
		flag := cmd.Flags().VarPF(&settingFlag{Setting: s}, s.Name, "", s.Usage)
		if s.Type == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
	return cmd
}

// settingFlag is a setting of the server as a flag.
type settingFlag struct {
	server.Setting
	given string // on the command line
}

func (f *settingFlag) Set(v string) error {
	f.given = v
	return errors.Unwrap(f.Setting.Set(v))
}

// String returns the text that was given, since [server.Setting.Get] has none for a zero.
func (f *settingFlag) String() string {
	if f.Name == "" { // pflag asks the zero value what the default would be
		return ""
	}
	return cmp.Or(f.given, f.Get())
}
func (f *settingFlag) Type() string { return f.Setting.Type }

// Components are what a server runs besides its log.
func Components() []server.Component {
	k := kafkaserver.New()
	k.Config.Listen = kafkaserver.DefaultListen
	alerts, views := alertserver.New(), viewserver.New()
	views.Alerts = func() viewhttp.Alerts {
		if tables := alerts.Tables(); tables != nil {
			return tables
		}
		return nil
	}
	return slices.Concat([]server.Component{k}, alerts.Components(), []server.Component{clusterserver.New(), views})
}

// readConfig puts together file, environment and flags, each over the one before.
func (m commands) readConfig(cmd *cobra.Command, file string) (server.Config, error) {
	c := m.ServerConfig()
	if file = cmp.Or(file, m.Variable(cli.ConfigVariable)); file != "" {
		if err := c.LoadFile(file); err != nil {
			return c, err
		}
	}
	if err := m.LoadEnv(&c); err != nil {
		return c, err
	}
	var errs []error
	for _, s := range c.Settings() {
		if f := cmd.Flags().Lookup(s.Name); f.Changed {
			errs = append(errs, m.applyFlag(&c, s, f))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	return c, c.Validate()
}

// applyFlag sets what a flag says. A token on the command line replaces a token
// file that the environment or file names, and the other way round.
func (m commands) applyFlag(c *server.Config, s server.Setting, f *pflag.Flag) error {
	switch s.Name {
	case "token":
		c.TokenFile = ""
	case "token-file":
		c.Token = ""
	}
	return s.Set(f.Value.String())
}

func (m commands) runServer(ctx context.Context, c server.Config) error {
	c.Logger = c.NewLogger(m.Stderr)
	if limit := c.MemoryBytes(); limit > 0 {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	}
	quiet, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var scavenger sync.WaitGroup
	scavenger.Go(func() { scavenge.Run(quiet) })
	defer scavenger.Wait()
	defer cancel()
	n, err := server.Open(ctx, c)
	if err != nil {
		return err
	}
	err = n.Start(ctx)
	if f := (*server.FileError)(nil); errors.As(err, &f) {
		err = cli.WrongConfig(err)
	}
	if err == nil {
		err = m.announce(n, &c)
	}
	if err == nil {
		err = waitForEnd(ctx, n)
		c.Logger.Info("stopping", "timeout", c.StopTimeout)
	}
	if serr := n.Stop(context.WithoutCancel(ctx)); serr != nil {
		err = errors.Join(err, serr)
	}
	if err == nil {
		c.Logger.Info("stopped")
	}
	return err
}

func waitForEnd(ctx context.Context, n *server.Server) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-n.Failed():
		return err
	}
}

// announce prints the one line that says where the server is. A program that started it
// waits for that line.
func (m commands) announce(n *server.Server, c *server.Config) error {
	if m.Flags.JSON {
		f := new(cli.Fields).Add("event", "ready").Add("url", n.URL()).Add("log", server.Redacted(c.Log)).Add("pid", os.Getpid())
		for _, l := range n.Listeners() {
			f.Add(l.Name, l.Addr.String())
		}
		if err := m.Object(f); err != nil {
			return err
		}
		return m.Flush()
	}
	text := fmt.Sprintf("mainstem: serving %s on %s", server.Redacted(c.Log), n.URL())
	for _, l := range n.Listeners() {
		text += fmt.Sprintf(", for %s on %s", l.Clients, l.Addr)
	}
	if err := m.Line(text); err != nil {
		return err
	}
	return m.Flush()
}
