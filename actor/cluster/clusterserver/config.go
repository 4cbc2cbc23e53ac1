package clusterserver

import (
	"fmt"
	"net"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor/cluster"
	"github.com/mainstemdev/mainstem/actor/cluster/devca"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
	"github.com/mainstemdev/mainstem/internal/readfile"
	"github.com/mainstemdev/mainstem/server"
)

// Config has the settings of a [Component], see [server.Setting].
type Config struct {
	Node       string `name:"cluster" unit:"name@host:port" help:"be a node of that name in a cluster of actors, and listen for the others at that address" default:"not"`
	Advertise  string `name:"cluster-advertise" unit:"host:port" help:"address that other nodes are told to connect to" default:"the listener's"`
	Peers      string `name:"cluster-peers" unit:"name=host:port" help:"nodes of the cluster that are not found through the log, separated by commas"`
	Certs      string `name:"cluster-certs" unit:"directory" help:"certificates of the cluster, as mainstem actor ca makes them"`
	SecretFile string `name:"cluster-secret-file" unit:"file" help:"file that holds what all nodes of the cluster know, and nobody else"`
}

// options returns the options of cluster.Join, and the name of the node. It reads the certificates
// and the secret.
func (c *Config) options() (*cluster.Options, string, error) {
	name, listen, _ := strings.Cut(c.Node, "@")
	o := &cluster.Options{Listen: listen, Advertise: c.Advertise, Plain: c.Certs == ""}
	var err error
	if o.Peers, err = parsePeers(c.Peers); err != nil {
		return nil, "", err
	}
	if c.SecretFile != "" {
		secret, err := readfile.All(c.SecretFile, readfile.Secret)
		if err != nil {
			return nil, "", &mainstem.Error{Kind: mainstem.KindInvalid, Op: "cluster-secret-file", Err: err}
		}
		o.Secret = []byte(strings.TrimSpace(string(secret)))
		if len(o.Secret) < link.MinSecret {
			return nil, "", mainstem.Errorf(mainstem.KindInvalid, "cluster-secret-file", "%s holds %d bytes: want at least %d", c.SecretFile, len(o.Secret), link.MinSecret)
		}
	}
	if c.Certs != "" {
		cert, roots, err := devca.Load(c.Certs, name)
		if err != nil {
			return nil, "", fmt.Errorf("cluster-certs: %w; mainstem actor ca makes certificates", err)
		}
		o.TLS = &link.TLS{Certificate: cert, Roots: roots}
	}
	return o, name, nil
}

// parsePeers reads "name=host:port,name=host:port".
func parsePeers(s string) (map[string]string, error) {
	peers := make(map[string]string)
	for pair := range strings.SplitSeq(s, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, addr, _ := strings.Cut(pair, "=")
		if _, _, err := net.SplitHostPort(addr); err != nil || name == "" {
			return nil, fmt.Errorf("cluster-peers has %q: want NAME=HOST:PORT, separated by commas", pair)
		}
		peers[name] = addr
	}
	return peers, nil
}

// Check implements [server.Configured]. It refuses malformed settings, settings that need Node
// without it, a cluster without certificates or secret, and a listener without TLS that other
// machines can reach, unless insecure is set.
func (a *Component) Check(all *server.Config) error {
	c := &a.Config
	if c.Node == "" {
		for name, v := range map[string]string{
			"cluster-advertise": c.Advertise, "cluster-peers": c.Peers,
			"cluster-secret-file": c.SecretFile, "cluster-certs": c.Certs,
		} {
			if v != "" {
				return fmt.Errorf("%s is of no use without cluster", name)
			}
		}
		return nil
	}
	name, listen, _ := strings.Cut(c.Node, "@")
	_, _, err := net.SplitHostPort(listen)
	if err != nil || name == "" || strings.ContainsAny(name, "/#") {
		return fmt.Errorf("cluster is %q: want NAME@HOST:PORT, as in server@127.0.0.1:4370", c.Node)
	}
	if c.Advertise != "" {
		if h, p, err := net.SplitHostPort(c.Advertise); err != nil || h == "" || p == "" {
			return fmt.Errorf("cluster-advertise is %q: want HOST:PORT, by which other nodes reach this one", c.Advertise)
		}
	}
	if _, err := parsePeers(c.Peers); err != nil {
		return err
	}
	switch {
	case c.Certs == "" && c.SecretFile == "":
		return fmt.Errorf("cluster is %q without a proof of who belongs to it: set cluster-certs (mainstem actor ca makes certificates) or cluster-secret-file", c.Node)
	case c.Certs == "" && server.Reachable(listen) && !all.Insecure:
		return fmt.Errorf("cluster is %q, which other machines can reach, without TLS (set cluster-certs; mainstem actor ca makes certificates); listen on 127.0.0.1, or set insecure to let that network read what nodes send", c.Node)
	}
	return nil
}
