package alertcmd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/coordinator/client"
	"github.com/mainstemdev/mainstem/alert/omnirest"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/server"
)

// pollEvery is how often a server without a feed is asked what has changed.
const pollEvery = 2 * time.Second

// alertFlags say where the tables are, besides the flags of all commands.
type alertFlags struct {
	name string // of the server, for rows that are written to a log
	app  string

	url          string // of an object server's HTTP interface
	user         string
	passwordFile string
	every        time.Duration // between questions to a server without a feed
	readOnly     bool

	coordinator string // URL
	clusters    []string
	merge       *client.Merge // ask for the rows of all clusters as one result
}

// add adds the flags. clusters says whether the command can ask a coordinator.
func (a *alertFlags) add(cmd *cobra.Command, app string, clusters bool) {
	a.every = pollEvery
	f := cmd.Flags()
	f.StringVar(&a.name, "server-name", "", "`name` that getservername() returns and new rows carry in ServerName, for a log (default NCOMS)")
	f.StringVar(&a.app, "app", app, "`name` of the application that writes to a log; PROBE leaves out what comes late or twice")
	f.StringVar(&a.url, "url", "", "`URL` of the HTTP interface of an object server, Mainstem's or IBM's, instead of a log")
	f.StringVar(&a.user, "user", "", "`name` of a user of the object server")
	f.StringVar(&a.passwordFile, "password-file", "", "`file` that holds the user's password (default $"+cli.AlertsPassword+"_FILE, else $"+cli.AlertsPassword+")")
	if clusters {
		f.StringVar(&a.coordinator, "coordinator", "", "`URL` of a coordinator, instead of a log")
		f.StringSliceVar(&a.clusters, "clusters", nil, "`names` of the coordinator's clusters to ask, separated by commas (default all)")
	}
}

// remote reports whether the command line names a server or a coordinator. Flags that
// are of no use with what it names are mistakes.
func (a *alertFlags) remote(cmd *cobra.Command) (bool, error) {
	changed := cmd.Flags().Changed
	named := a.url != "" || a.coordinator != ""
	useless := []string{"server-name", "app"}
	var place string
	switch {
	case a.url != "" && a.coordinator != "":
		return false, errors.New("--url and --coordinator exclude each other")
	case named && changed("log"):
		return false, errors.New("--log goes neither with --url nor with --coordinator")
	case a.coordinator != "":
		place = "with --coordinator"
	case named:
		place, useless = "with --url", append(useless, "clusters", "merge", "order-by", "limit-rows")
	default:
		place, useless = "without --url or --coordinator", []string{"user", "password-file", "clusters", "merge", "order-by", "limit-rows"}
	}
	for _, name := range useless {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return false, fmt.Errorf("--%s is of no use %s", name, place)
		}
	}
	return named, nil
}

// secure returns the TLS configuration for a URL, nil for that of the system. A password
// does not go to another machine for everybody to read, unless --insecure says so.
func (a *alertFlags) secure(m *cli.Main, given string) (*tls.Config, error) {
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is no URL: want http://HOST:PORT or https://HOST:PORT", server.Redacted(given))
	}
	if u.User != nil {
		return nil, errors.New("a URL must not hold a password: everybody sees it in the list of processes; use --user and --password-file")
	}
	ip := net.ParseIP(u.Hostname())
	here := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if u.Scheme == "http" && a.user != "" && !here && !m.Flags.Insecure {
		return nil, fmt.Errorf("%s shows the password to everybody between here and there: use https, or set --insecure", server.Redacted(given))
	}
	return server.ClientTLS(m.TLSCA())
}

// withAlerts opens the tables that the command line names, runs do, and closes them.
func (m commands) withAlerts(cmd *cobra.Command, a cli.Access, flags *alertFlags, do func(ctx context.Context, t alertTables) error) error {
	remote, err := flags.remote(cmd)
	if err != nil {
		return cli.WrongUsage(cmd, err)
	}
	if remote {
		return m.withRemoteAlerts(cmd, flags, do)
	}
	return m.WithLog(cmd, a, func(ctx context.Context, log mainstem.Log) error {
		t, err := m.openAlerts(ctx, log, a, flags)
		if err != nil {
			return err
		}
		err = do(ctx, t)
		if cerr := t.close(); err == nil {
			err = cerr
		}
		return err
	})
}

func (m commands) withRemoteAlerts(cmd *cobra.Command, flags *alertFlags, do func(ctx context.Context, t alertTables) error) error {
	ctx, cancel, err := m.Context(cmd)
	if err != nil {
		return err
	}
	defer cancel()
	t, err := flags.connect(ctx, m.Main)
	if err != nil {
		var e *mainstem.Error
		if errors.As(err, &e) && e.Kind != mainstem.KindInvalid {
			return flags.explain(err)
		}
		return cli.WrongUsage(cmd, err)
	}
	err = do(ctx, t)
	if cerr := t.close(); err == nil {
		err = cerr
	}
	return flags.explain(err)
}

// connect returns the tables of a server or a coordinator.
func (a *alertFlags) connect(ctx context.Context, m *cli.Main) (alertTables, error) {
	password, err := m.Password(a.passwordFile, cli.AlertsPassword)
	if err != nil {
		return nil, err
	}
	trust, err := a.secure(m, cmp.Or(a.url, a.coordinator))
	if err != nil {
		return nil, err
	}
	if a.coordinator != "" {
		c, err := client.New(a.coordinator, &client.Options{User: a.user, Password: password, TLS: trust})
		if err != nil {
			return nil, err
		}
		t := &clusterTables{client: c, clusters: a.clusters, merge: a.merge, readOnly: a.readOnly}
		if err := t.checkNames(ctx); err != nil {
			return nil, errors.Join(err, t.close())
		}
		return t, nil
	}
	c, err := omnirest.New(a.url, &omnirest.Options{User: a.user, Password: password, TLS: trust, Compress: true, Agent: "mainstem/" + server.Version()})
	if err != nil {
		return nil, err
	}
	return &restTables{client: c, every: a.every, readOnly: a.readOnly}, nil
}

// explain adds to an error what can be done about it.
func (a *alertFlags) explain(err error) error {
	switch {
	case errors.Is(err, mainstem.ErrDenied) && a.user == "":
		return cli.Hint(err, "name a user with --user, and a password with --password-file or "+cli.AlertsPassword)
	case errors.Is(err, mainstem.ErrDenied):
		return cli.Hint(err, "is the password in --password-file or "+cli.AlertsPassword+" that of "+a.user+"?")
	case errors.Is(err, mainstem.ErrUnavailable) && a.url != "":
		return cli.Hint(err, "does an object server listen at "+a.url+"?")
	case errors.Is(err, mainstem.ErrUnavailable):
		return cli.Hint(err, "does a coordinator listen at "+a.coordinator+"?")
	}
	return err
}
