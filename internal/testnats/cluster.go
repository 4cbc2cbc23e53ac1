package testnats

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// account is the account of clients of a server that has none configured.
const account = "$G"

// Cluster is several servers that form one JetStream cluster.
type Cluster struct {
	Nodes []*Server

	t      testing.TB
	routes []*url.URL
}

// NewCluster starts n servers that form one JetStream cluster and waits until
// they have elected a leader. They stop when the test ends.
func NewCluster(t testing.TB, n int, o *Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for range n {
		c.add(o)
	}
	for _, s := range c.Nodes {
		s.opts.Routes = c.routes
	}
	for _, s := range c.Nodes { // all of them, before the first can be ready
		s.mu.Lock()
		s.startLocked()
		s.mu.Unlock()
	}
	c.WaitHealthy()
	return c
}

// add prepares one more node.
func (c *Cluster) add(o *Options) *Server {
	c.t.Helper()
	s := newServer(c.t, fmt.Sprintf("node%d", len(c.Nodes)+1), o)
	s.opts.Cluster = server.ClusterOpts{Name: "testnats", Host: "127.0.0.1", Port: freePort(c.t), PoolSize: -1}
	c.routes = append(c.routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", s.opts.Cluster.Port)})
	c.Nodes = append(c.Nodes, s)
	return s
}

// Join starts one more server, which joins the cluster a moment later, and returns it.
func (c *Cluster) Join(o *Options) *Server {
	c.t.Helper()
	s := c.add(o)
	s.opts.Routes = c.routes
	s.Start()
	return s
}

// URL returns the addresses of all nodes, separated by commas, as nats.Connect takes them.
func (c *Cluster) URL() string {
	urls := make([]string, len(c.Nodes))
	for i, s := range c.Nodes {
		urls[i] = s.URL()
	}
	return strings.Join(urls, ",")
}

// Leader returns the node that leads a stream, once there is one.
func (c *Cluster) Leader(stream string) *Server {
	c.t.Helper()
	var leader *Server
	c.eventually("stream "+stream+" has a leader", func() bool {
		for _, s := range c.Nodes {
			if srv := s.Running(); srv != nil && srv.JetStreamIsStreamLeader(account, stream) {
				leader = s
				return true
			}
		}
		return false
	})
	return leader
}

// StepDown makes the leader of a stream give up, and waits for the next one. The
// node goes on as a follower.
func (c *Cluster) StepDown(stream string) {
	c.t.Helper()
	c.Leader(stream)
	conn := Connect(c.t, c.URL())
	defer conn.Close()
	try := time.Second // between two leaders nobody answers
	c.eventually("the leader of stream "+stream+" steps down", func() bool {
		reply, err := conn.Request("$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil, try)
		try *= 2
		if err != nil {
			c.t.Logf("testnats: step down of %s: %v", stream, err)
			return false
		}
		var answer struct {
			Error *struct {
				Description string `json:"description"`
			} `json:"error"`
		}
		if err := json.Unmarshal(reply.Data, &answer); err != nil || answer.Error != nil {
			c.t.Logf("testnats: step down of %s: %s", stream, reply.Data)
			return false
		}
		return true
	})
	c.Leader(stream)
}

// WaitHealthy waits until the cluster has a leader, every running node is current
// in it, and each of the streams named has a leader and is current on the running
// nodes that hold it.
func (c *Cluster) WaitHealthy(streams ...string) {
	c.t.Helper()
	c.eventually("the cluster is healthy", func() bool {
		leaders, running, known := 0, 0, 0
		for _, s := range c.Nodes {
			srv := s.Running()
			if srv == nil {
				continue
			}
			if !srv.ReadyForConnections(time.Millisecond) || !srv.JetStreamIsCurrent() {
				return false
			}
			running++
			if srv.JetStreamIsLeader() {
				leaders++
				known = len(srv.JetStreamClusterPeers())
			}
		}
		// The leader places streams on servers only of which it has heard.
		return leaders == 1 && known >= running
	})
	for _, stream := range streams {
		c.Leader(stream)
		c.eventually("stream "+stream+" is current everywhere", func() bool {
			for _, s := range c.Nodes {
				srv := s.Running()
				if srv != nil && srv.JetStreamIsStreamAssigned(account, stream) && !srv.JetStreamIsStreamCurrent(account, stream) {
					return false
				}
			}
			return true
		})
	}
}

// eventually waits until ok and fails the test if that takes too long.
func (c *Cluster) eventually(what string, ok func() bool) {
	c.t.Helper()
	deadline := time.After(Patience)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-again.C:
		case <-deadline:
			c.t.Fatalf("testnats: after %v it is still not so that %s", Patience, what)
		}
	}
}
