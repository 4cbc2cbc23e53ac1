package shard

import (
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/lease"
)

// host is the actor of a shard on the node that owns it. It passes messages to the
// actors of their keys, its children.
type host[M any] struct {
	key      func(M) string
	fresh    func(Entity) actor.Actor[M]
	lease    *lease.Lease
	entities *actor.Options
	keyed    *actor.Keyed[string, M]
}

// Start makes the place for the actors.
func (h *host[M]) Start(c *actor.Context[M]) (err error) {
	h.keyed, err = actor.NewKeyed(c, func(key string) actor.Actor[M] { return h.fresh(Entity{Key: key, Lease: h.lease}) }, h.entities)
	return err
}

// Receive passes a message on. If that fails, Send has made a dead letter of it.
func (h *host[M]) Receive(c *actor.Context[M], m M) error {
	_ = h.keyed.Send(c, h.key(m), m)
	return nil
}
