package shard

import (
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/lease"
)

// host is the actor of a shard on the node that owns it. It sends messages to the actors of their
// keys, its children, and ends with them.
type host[M any] struct {
	key      func(M) string
	fresh    func(Entity) actor.Actor[M]
	lease    *lease.Lease // of the shard
	entities *actor.Options
	keyed    *actor.Keyed[string, M] // set by Start
}

// Start prepares the children.
func (h *host[M]) Start(c *actor.Context[M]) (err error) {
	h.keyed, err = actor.NewKeyed(c, func(key string) actor.Actor[M] { return h.fresh(Entity{Key: key, Lease: h.lease}) }, h.entities)
	return err
}

// Receive sends a message to the actor of its key. If that fails, Send has made a dead letter of it.
func (h *host[M]) Receive(c *actor.Context[M], m M) error {
	_ = h.keyed.Send(c, h.key(m), m)
	return nil
}
