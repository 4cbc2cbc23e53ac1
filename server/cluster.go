package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
	"github.com/mainstemdev/mainstem/actor/cluster/devca"
	"github.com/mainstemdev/mainstem/actor/cluster/inspect"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
	"github.com/mainstemdev/mainstem/actor/cluster/registrar"
	"github.com/mainstemdev/mainstem/internal/readfile"
)

// clusterPart is the server as a node of a cluster of actors.
type clusterPart struct {
	node     *actor.Node // nil if it is none
	cluster  *cluster.Cluster
	shows    *inspect.Inspector
	registry *registrar.Log
	cancel   context.CancelFunc
	done     chan struct{} // closed when the goroutine that announces the node has ended
}

// resolver finds nodes without announcing this one: that may have to wait for an
// earlier life of this server to be forgotten, which is no reason not to serve.
type resolver struct{ registrar.Resolver }

// startCluster joins the cluster.
func (n *Server) startCluster(ctx context.Context) error {
	c := &n.config
	if c.Cluster == "" {
		return nil
	}
	o, name, err := c.clusterOptions()
	if err != nil {
		return err
	}
	p := clusterPart{registry: registrar.New(n.log, nil)}
	o.Resolver, o.Logger = resolver{p.registry}, n.logger
	if p.node, err = actor.Open(name, &actor.NodeOptions{Logger: n.logger}); err != nil {
		return err
	}
	if p.cluster, err = cluster.Join(p.node, o); err != nil {
		return errors.Join(fmt.Errorf("join the cluster on %s: %w", o.Listen, err), p.node.Close())
	}
	if p.shows, err = inspect.New(p.cluster); err != nil {
		return errors.Join(err, p.cluster.Leave(ctx), p.node.Close())
	}
	at := o.Advertise
	if at == "" {
		at = p.cluster.Addr()
	}
	var announcing context.Context
	announcing, p.cancel = context.WithCancel(n.stopping)
	p.done = make(chan struct{})
	n.cluster = p
	go func() {
		defer close(p.done)
		if err := p.registry.Announce(announcing, name, p.node.Start(), at); err != nil && announcing.Err() == nil {
			n.logger.Warn("this node cannot be found through the log", "node", name, "error", err)
		}
	}()
	return nil
}

// stopCluster leaves the cluster and ends the actors.
func (n *Server) stopCluster(ctx context.Context) error {
	p := &n.cluster
	if p.node == nil {
		return nil
	}
	p.cancel()
	<-p.done
	err := p.registry.Withdraw(ctx, p.node.Name(), p.node.Start())
	return errors.Join(err, p.cluster.Leave(ctx), p.node.Stop(ctx))
}

// Cluster returns the server as a node of a cluster of actors, nil before Start and if it is none.
func (n *Server) Cluster() *cluster.Cluster { return n.cluster.cluster }

// clusterOptions returns how to join, and under what name.
func (c *Config) clusterOptions() (*cluster.Options, string, error) {
	name, listen, _ := strings.Cut(c.Cluster, "@")
	o := &cluster.Options{Listen: listen, Advertise: c.ClusterAdvertise, Plain: c.ClusterCerts == ""}
	var err error
	if o.Peers, err = parsePeers(c.ClusterPeers); err != nil {
		return nil, "", err
	}
	if c.ClusterSecretFile != "" {
		secret, err := readfile.All(c.ClusterSecretFile, readfile.Secret)
		if err != nil {
			return nil, "", &mainstem.Error{Kind: mainstem.KindInvalid, Op: "cluster-secret-file", Err: err}
		}
		o.Secret = []byte(strings.TrimSpace(string(secret)))
		if len(o.Secret) < link.MinSecret {
			return nil, "", &mainstem.Error{Kind: mainstem.KindInvalid, Op: "cluster-secret-file", Err: fmt.Errorf("%s holds %d bytes: want at least %d", c.ClusterSecretFile, len(o.Secret), link.MinSecret)}
		}
	}
	if c.ClusterCerts != "" {
		cert, roots, err := devca.Load(c.ClusterCerts, name)
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

// checkCluster refuses what cannot be joined, and an address that others can reach
// unless it is protected.
func (c *Config) checkCluster() error {
	if c.Cluster == "" {
		for name, v := range map[string]string{
			"cluster-advertise": c.ClusterAdvertise, "cluster-peers": c.ClusterPeers,
			"cluster-secret-file": c.ClusterSecretFile, "cluster-certs": c.ClusterCerts,
		} {
			if v != "" {
				return fmt.Errorf("%s is of no use without cluster", name)
			}
		}
		return nil
	}
	name, listen, _ := strings.Cut(c.Cluster, "@")
	host, _, err := net.SplitHostPort(listen)
	if err != nil || name == "" || strings.ContainsAny(name, "/#") {
		return fmt.Errorf("cluster is %q: want NAME@HOST:PORT, as in server@127.0.0.1:4370", c.Cluster)
	}
	if c.ClusterAdvertise != "" {
		if h, p, err := net.SplitHostPort(c.ClusterAdvertise); err != nil || h == "" || p == "" {
			return fmt.Errorf("cluster-advertise is %q: want HOST:PORT, by which other nodes reach this one", c.ClusterAdvertise)
		}
	}
	if _, err := parsePeers(c.ClusterPeers); err != nil {
		return err
	}
	switch {
	case c.ClusterCerts == "" && c.ClusterSecretFile == "":
		return fmt.Errorf("cluster is %q without a proof of who belongs to it: set cluster-certs (mainstem actor ca makes certificates) or cluster-secret-file", c.Cluster)
	case c.ClusterCerts == "" && !isLoopback(host) && !c.Insecure:
		return fmt.Errorf("cluster is %q, which other machines can reach, without TLS (set cluster-certs; mainstem actor ca makes certificates); listen on 127.0.0.1, or set insecure to let that network read what nodes send", c.Cluster)
	}
	return nil
}
