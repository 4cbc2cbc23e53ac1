package alertcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/alertserver"
	"github.com/mainstemdev/mainstem/alert/coordinator"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/internal/readfile"
	"github.com/mainstemdev/mainstem/server"
)

// maxCoordinatorConfig bounds the bytes of a configuration file.
const maxCoordinatorConfig = 1 << 20

// coordinatorFlags are those of the coordinator.
type coordinatorFlags struct {
	config   string
	listen   string
	cert     string
	key      string
	logLevel string
	check    bool
}

func (m commands) newCoordinator() *cobra.Command {
	var f coordinatorFlags
	cmd := &cobra.Command{
		Use:   "coordinator --config FILE",
		Short: "Ask the object servers of many clusters at once",
		Long: `Run a coordinator: it sends a statement to many clusters of object servers at once,
Mainstem's or IBM's, and answers with an entry for each cluster. Its HTTP API is that of
nco-qoordinator: POST /rawSQL, GET /clusterNames; /openapi.yml describes it. /healthz,
/readyz and /metrics (Prometheus) are on the same address.

--config names a YAML file:

  http_server: {listen: 127.0.0.1:5000}
  omnibus:
    clusters:
      AGG1: [agg1-p:8080, agg1-b:8080]     # the preferred server first
      AGG2: [https://agg2-p:8443]
  log_level: INFO

A server is HOST:PORT or a URL of OMNIbus's HTTP interface. A cluster moves to the next
server when one fails, and back to the first. Names and passwords in requests are those
of the object servers. docs/coordinator.md has all settings.

The coordinator listens on this machine only, unless it has a certificate, or --insecure
says that the network may see passwords. --check reads the configuration, and the files
that it names, says what is wrong with it, and shows the clusters.

SIGTERM or SIGINT stops it: running requests may finish within shutdown_timeout.`,
		Example: `  mainstem alerts coordinator --config coordinator.yaml
  mainstem alerts coordinator --config coordinator.yaml --listen 127.0.0.1:5001 --log-level debug
  mainstem alerts coordinator --config coordinator.yaml --listen :5000 --tls-cert cert.pem --tls-key key.pem
  mainstem alerts coordinator --config coordinator.yaml --check`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := m.coordinatorConfig(cmd, &f)
			if err != nil {
				return cli.WrongConfig(err)
			}
			o := &alertserver.CoordinatorOptions{TLSCert: f.cert, TLSKey: f.key, Insecure: m.Flags.Insecure}
			if f.check {
				return m.checkCoordinator(c, o)
			}
			return m.runCoordinator(cmd.Context(), c, o)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "YAML `file` (required)")
	fs.StringVar(&f.listen, "listen", "", "`address` instead of http_server.listen")
	fs.StringVar(&f.cert, "tls-cert", "", "PEM `file` of the certificate to serve with")
	fs.StringVar(&f.key, "tls-key", "", "PEM `file` of its key")
	fs.StringVar(&f.logLevel, "log-level", "", "debug, info, warn or error instead of log_level")
	fs.BoolVar(&f.check, "check", false, "only check the configuration")
	cli.Required(cmd, "config")
	return cmd
}

// coordinatorConfig reads the file; flags win over it.
func (m commands) coordinatorConfig(cmd *cobra.Command, f *coordinatorFlags) (*coordinator.Config, error) {
	if err := m.CheckEnv(); err != nil {
		return nil, err
	}
	text, err := readfile.All(f.config, maxCoordinatorConfig)
	if err != nil {
		return nil, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "configuration", Err: err}
	}
	c, err := coordinator.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.config, err)
	}
	if cmd.Flags().Changed("listen") {
		c.HTTP.Listen = f.listen
	}
	if f.logLevel != "" {
		c.LogLevel = f.logLevel
	}
	return c, c.Validate()
}

// checkCoordinator shows the clusters of a configuration that has no mistakes.
func (m commands) checkCoordinator(c *coordinator.Config, o *alertserver.CoordinatorOptions) error {
	if err := alertserver.CheckCoordinator(c, o); err != nil {
		return cli.WrongConfig(err)
	}
	for _, name := range cli.SortedNames(c.OMNIbus.Clusters) {
		servers := c.OMNIbus.Clusters[name]
		if m.Flags.JSON {
			if err := m.Object(new(cli.Fields).Add("cluster", name).Add("servers", servers)); err != nil {
				return err
			}
			continue
		}
		if err := m.Line(append([]string{name}, servers...)...); err != nil {
			return err
		}
	}
	return nil
}

func (m commands) runCoordinator(ctx context.Context, c *coordinator.Config, o *alertserver.CoordinatorOptions) error {
	out := m.Stderr
	if c.LogFile != "" {
		file, err := os.OpenFile(c.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return cli.WrongConfig(&mainstem.Error{Kind: mainstem.KindInvalid, Op: "log_file", Err: err})
		}
		defer file.Close()
		out = file
	}
	level := slog.LevelError
	_ = level.UnmarshalText([]byte(c.LogLevel)) // Validate has seen it
	o.Logger = m.LoggerTo(out, level)
	p, err := alertserver.OpenCoordinator(ctx, c, o)
	if errors.Is(err, mainstem.ErrInvalid) {
		return cli.WrongConfig(err)
	}
	if err != nil {
		return err
	}
	o.Logger.Info("serving", "url", p.URL(), "clusters", cli.SortedNames(c.OMNIbus.Clusters), "version", server.Version())
	if err = m.announceCoordinator(p, c); err == nil {
		select {
		case <-ctx.Done():
		case err = <-p.Failed():
		}
		o.Logger.Info("stopping")
	}
	err = errors.Join(err, p.Stop(context.WithoutCancel(ctx)))
	if err == nil {
		o.Logger.Info("stopped")
	}
	return err
}

// announceCoordinator prints the one line that says where the coordinator is. A program that
// started it waits for that line.
func (m commands) announceCoordinator(p *alertserver.Coordinator, c *coordinator.Config) error {
	clusters := cli.SortedNames(c.OMNIbus.Clusters)
	var err error
	if m.Flags.JSON {
		err = m.Object(new(cli.Fields).Add("event", "ready").Add("url", p.URL()).Add("clusters", clusters).Add("pid", os.Getpid()))
	} else {
		err = m.Line(fmt.Sprintf("mainstem: coordinating %s on %s", strings.Join(clusters, ", "), p.URL()))
	}
	if err != nil {
		return err
	}
	return m.Flush()
}
