// Package clusterserver makes a server a node of a cluster of actors. It is a component of package
// server. Nodes find each other through the log of the server.
//
//	a := clusterserver.New()
//	a.Config.Node, a.Config.Certs = "server@127.0.0.1:4370", "certs"
//	c := server.DefaultConfig()
//	c.Components = append(c.Components, a)
//	s, err := server.Open(ctx, c)
//
// The HTTP listener of the server describes the nodes and actors of the cluster at [NodesPath],
// [TreePath] and [InspectPath]; [Ask] is a client of these paths.
package clusterserver

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
	"github.com/mainstemdev/mainstem/actor/cluster/inspect"
	"github.com/mainstemdev/mainstem/actor/cluster/registrar"
	"github.com/mainstemdev/mainstem/server"
)

// Component makes a server a node of a cluster of actors. It belongs to one server; its methods
// may be called from many goroutines once Start has returned.
type Component struct {
	// Config must not change after the server was opened.
	Config Config

	joined // set by Start, before the HTTP listener begins; zero if the server is no node
}

// joined is the state of a server that is a node.
type joined struct {
	node      *actor.Node
	cluster   *cluster.Cluster
	inspector *inspect.Inspector
	registry  *registrar.Log
	cancel    context.CancelFunc // ends the goroutine that announces the node
	done      chan struct{}      // closed when that has ended
}

var _ server.Configured = (*Component)(nil)

// New returns a component with an empty Config: the server is no node unless Config.Node is set.
func New() *Component { return new(Component) }

// Name implements [server.Component].
func (a *Component) Name() string { return "cluster" }

// Settings implements [server.Configured].
func (a *Component) Settings() any { return &a.Config }

// Cluster returns the membership of the server in its cluster; nil before Start, and if it is no
// node.
func (a *Component) Cluster() *cluster.Cluster { return a.cluster }

// resolver hides that a registrar announces nodes, so that cluster.Join does not wait for that. The
// announcement may have to wait until the session of an earlier life of this server has ended; the
// server serves meanwhile.
type resolver struct{ registrar.Resolver }

// Start implements [server.Component]. It joins the cluster, and announces the node in the
// background. If Config names no node, requests to the HTTP paths fail with Unsupported.
func (a *Component) Start(ctx context.Context, h *server.Host) error {
	a.addRoutes(h)
	if a.Config.Node == "" {
		return nil
	}
	o, name, err := a.Config.options()
	if err != nil {
		return err
	}
	j := joined{registry: registrar.New(h.Log, nil)}
	o.Resolver, o.Logger = resolver{j.registry}, h.Logger
	if j.node, err = actor.Open(name, &actor.NodeOptions{Logger: h.Logger}); err != nil {
		return err
	}
	if j.cluster, err = cluster.Join(j.node, o); err != nil {
		return errors.Join(fmt.Errorf("join the cluster on %s: %w", o.Listen, err), j.node.Close())
	}
	if j.inspector, err = inspect.New(j.cluster); err != nil {
		return errors.Join(err, j.cluster.Leave(ctx), j.node.Close())
	}
	at := o.Advertise
	if at == "" {
		at = j.cluster.Addr()
	}
	var announcing context.Context
	announcing, j.cancel = context.WithCancel(context.WithoutCancel(ctx))
	j.done = make(chan struct{})
	a.joined = j
	go func() {
		defer close(j.done)
		if err := j.registry.Announce(announcing, name, j.node.Start(), at); err != nil && announcing.Err() == nil {
			h.Logger.Warn("this node cannot be found through the log", "node", name, "error", err)
		}
	}()
	h.Logger.Info("serving actors", "node", name, "cluster", j.cluster.Addr())
	return nil
}

// Stop implements [server.Component]. It leaves the cluster and stops the actors.
func (a *Component) Stop(ctx context.Context) error {
	j := &a.joined
	if j.node == nil {
		return nil
	}
	j.cancel()
	<-j.done
	err := j.registry.Withdraw(ctx, j.node.Name(), j.node.Start())
	return errors.Join(err, j.cluster.Leave(ctx), j.node.Stop(ctx))
}
