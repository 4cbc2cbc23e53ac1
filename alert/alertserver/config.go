package alertserver

import (
	"errors"
	"fmt"
	"net"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/server"
)

// Config is what can be set. Its fields are settings of a server, see [server.Setting].
type Config struct {
	Omnibus      string `name:"omnibus" unit:"host:port" help:"address of the HTTP listener for clients of OMNIbus; with it the server keeps alert tables" default:"not"`
	OmnibusUsers string `name:"omnibus-users" unit:"file" help:"file of the users of alerts, with roles and hashes of passwords, as mainstem alerts user set makes it; it is read again when it changes" default:"nobody is asked for a password"`
	ServerName   string `name:"alert-server-name" unit:"name" help:"name of the object server, which new alerts carry in ServerName" default:"NCOMS"`
	Automations  bool   `name:"alert-automations" help:"run the automations of the alert tables that have an interval"`

	// Ways in: what others send becomes alerts.
	Syslog   string `name:"alert-syslog" unit:"host:port" help:"address on which syslog messages become alerts, by UDP and TCP" default:"not"`
	SyslogCA string `name:"alert-syslog-ca" unit:"file" help:"PEM file of authorities: syslog comes by TCP with TLS only, from who has a certificate of theirs"`
	Webhook  string `name:"alert-webhook" unit:"host:port" help:"address on which alerts of Prometheus and of its Alertmanager come in" default:"not"`
	Mapping  string `name:"alert-mapping" unit:"file" help:"YAML file that says which alerts syslog messages and those of Prometheus become" default:"built-in mappings"`
}

// keepsAlerts reports whether the server has alert tables: for those who read them, or for
// those who raise alerts.
func (c *Config) keepsAlerts() bool { return c.Omnibus != "" || c.Syslog != "" || c.Webhook != "" }

// options are how the alert tables are opened.
func (c *Config) options() *alert.Options {
	o := &alert.Options{Name: c.ServerName}
	if !c.Automations {
		o.Every = -1
	}
	return o
}

// Check implements [server.Configured]. It refuses what cannot be served, and addresses that
// others can reach unless they are protected.
func (a *Alerts) Check(all *server.Config) error {
	c := &a.Config
	return errors.Join(c.checkOmnibus(all), c.checkMapping(), c.checkSyslog(all), c.checkWebhook(all))
}

func (c *Config) checkOmnibus(all *server.Config) error {
	if c.ServerName != "" && !c.keepsAlerts() {
		return errors.New("alert-server-name is of no use without omnibus, alert-syslog or alert-webhook")
	}
	if c.OmnibusUsers != "" && c.Omnibus == "" && c.Webhook == "" {
		return errors.New("omnibus-users is of no use without omnibus or alert-webhook")
	}
	if err := c.options().Validate(); err != nil {
		return fmt.Errorf("alert-server-name is %q: %w", c.ServerName, err)
	}
	if c.Omnibus == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Omnibus); err != nil {
		return fmt.Errorf("omnibus is %q: want HOST:PORT, as in 127.0.0.1:8081, or nothing to turn it off", c.Omnibus)
	}
	var missing []string
	if c.OmnibusUsers == "" {
		missing = append(missing, "users with passwords (set omnibus-users, and make them with mainstem alerts user set)")
	}
	return all.CheckReach("omnibus", c.Omnibus, missing, "to let everyone on that network change the alerts")
}

func (c *Config) checkMapping() error {
	if c.Mapping != "" && c.Syslog == "" && c.Webhook == "" {
		return errors.New("alert-mapping is of no use without alert-syslog or alert-webhook")
	}
	return nil
}

func (c *Config) checkSyslog(all *server.Config) error {
	if c.Syslog == "" {
		if c.SyslogCA != "" {
			return errors.New("alert-syslog-ca is of no use without alert-syslog")
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Syslog); err != nil {
		return fmt.Errorf("alert-syslog is %q: want HOST:PORT, as in 127.0.0.1:1514, or nothing to turn it off", c.Syslog)
	}
	if c.SyslogCA != "" && all.TLSCert == "" {
		return errors.New("alert-syslog-ca needs a certificate of the server: set tls-cert and tls-key")
	}
	if c.SyslogCA != "" || all.Insecure || !server.Reachable(c.Syslog) {
		return nil
	}
	return fmt.Errorf("alert-syslog is %q, which other machines can reach, and syslog knows neither passwords nor secrecy; "+
		"set alert-syslog-ca to take it by TLS from senders with certificates, listen on 127.0.0.1 for a relay, or set insecure to take alerts from everyone on that network", c.Syslog)
}

func (c *Config) checkWebhook(all *server.Config) error {
	if c.Webhook == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Webhook); err != nil {
		return fmt.Errorf("alert-webhook is %q: want HOST:PORT, as in 127.0.0.1:9099, or nothing to turn it off", c.Webhook)
	}
	var missing []string
	if all.Token == "" && all.TokenFile == "" && c.OmnibusUsers == "" {
		missing = append(missing, "a token or users with passwords (set token-file or omnibus-users)")
	}
	return all.CheckReach("alert-webhook", c.Webhook, missing, "to take alerts from everyone on that network")
}
