// Package clusterserver is a server as a node of a cluster of actors, as a component of package
// server: other nodes find it, and are found by it, through the log of the server.
//
//	a := clusterserver.New()
//	a.Config.Node, a.Config.Certs = "server@127.0.0.1:4370", "certs"
//	c := server.DefaultConfig()
//	c.Components = append(c.Components, a)
//	s, err := server.Open(ctx, c)
//
// The HTTP listener of the server shows what lives in the cluster, below [NodesPath], [TreePath]
// and [InspectPath]; [Ask] is a client of these paths.
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

// Component is a server as a node of a cluster of actors. It belongs to one server; its methods
// may be called from many goroutines.
type Component struct {
	// Config must not change after the server was opened.
	Config Config

	joined // set by Start, before the HTTP listener begins; zero if the server is no node
}

// joined is what there is of a node.
type joined struct {
	node      *actor.Node
	cluster   *cluster.Cluster
	inspector *inspect.Inspector
	registry  *registrar.Log
	cancel    context.CancelFunc
	done      chan struct{} // closed when the goroutine that announces the node has ended
}

var _ server.Configured = (*Component)(nil)

// New returns a component that joins no cluster until its Config says which.
func New() *Component { return new(Component) }

// Name implements [server.Component].
func (a *Component) Name() string { return "cluster" }

// Settings implements [server.Configured].
func (a *Component) Settings() any { return &a.Config }

// Cluster returns the server as a node of a cluster of actors, nil before Start and if it is none.
func (a *Component) Cluster() *cluster.Cluster { return a.cluster }

// resolver finds nodes without announcing this one: that may have to wait for an
// earlier life of this server to be forgotten, which is no reason not to serve.
type resolver struct{ registrar.Resolver }

// Start joins the cluster. Without one, the paths of the HTTP listener say so.
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

// Stop leaves the cluster and ends the actors.
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
