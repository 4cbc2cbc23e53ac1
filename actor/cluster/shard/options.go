package shard

import (
	"log/slog"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/lease"
)

// Limits and defaults.
const (
	DefaultShards  = 64
	MaxShards      = 4096
	DefaultBuffer  = 10_000 // messages
	DefaultLinger  = time.Second
	admissionLimit = 1024                             // messages that wait for a slot
	maxName        = actor.MaxName - len(actorPrefix) // bytes of the name of a region
	actorPrefix    = "shard/"                         // of the name that a region's router is registered under
)

// Limits of waits for other nodes.
const (
	flushPatience = 30 * time.Second // for the answer to a flush
)

// retryPolicy is the pause before the next try after a lease was not acquired, or a host has failed.
var retryPolicy = backoff.Policy{First: 100 * time.Millisecond, Max: 10 * time.Second}

// Options configure a [Region]; nil means the defaults. They are copied. All
// regions of one name must have the same Shards.
type Options struct {
	// Shards is the number of shards, 1 to [MaxShards]: about ten for each node of the largest
	// cluster that is planned. It cannot be changed while regions of the name are open. Default
	// [DefaultShards].
	Shards int
	// Buffer limits two numbers of messages: those that wait on this node for one shard, for each
	// number of times that they were forwarded, while the shard moves or has no owner, beyond which
	// they are dead letters; and those of this node's senders that have not been sent to other nodes,
	// beyond which senders wait. While so many messages that other nodes have forwarded wait to be
	// sent to one node, further ones wait for their shard. Default [DefaultBuffer].
	Buffer int
	// Entities are the options of each actor, without Name; Idle defaults to [actor.DefaultIdle]. The
	// policy [actor.Block] is refused: one full mailbox would block a shard.
	Entities *actor.Options
	// Linger is how long a region that is being closed forwards messages of nodes that have not seen
	// yet that its shards have moved. Default [DefaultLinger].
	Linger time.Duration
	// Logger gets failures. Default: discards.
	Logger *slog.Logger
}

// withDefaults returns o with the defaults filled in, or an Invalid error.
func (o *Options) withDefaults(name string) (Options, error) {
	var f Options
	if o != nil {
		f = *o
	}
	if f.Shards == 0 {
		f.Shards = DefaultShards
	}
	if f.Buffer == 0 {
		f.Buffer = DefaultBuffer
	}
	if f.Linger == 0 {
		f.Linger = DefaultLinger
	}
	if f.Logger == nil {
		f.Logger = slog.New(slog.DiscardHandler)
	}
	if f.Entities != nil {
		own := *f.Entities
		f.Entities = &own
	}
	switch {
	case name == "" || len(name) > maxName || strings.ContainsAny(name, "/"):
		return f, invalidf("the name %.64q of a region: want 1 to %d bytes without /", name, maxName)
	case f.Shards < 1 || f.Shards > MaxShards:
		return f, invalidf("Options.Shards is %d: want 1 to %d", f.Shards, MaxShards)
	case f.Linger < 0:
		return f, invalidf("Options.Linger is %v: want 0 (the default) or more", f.Linger)
	case f.Buffer < 0:
		return f, invalidf("Options.Buffer is %d: want 0 (the default) or more", f.Buffer)
	case f.Entities != nil && f.Entities.Name != "":
		return f, invalidf("Options.Entities.Name is %q: the actors of keys have no names", f.Entities.Name)
	case f.Entities != nil && f.Entities.Overflow == actor.Block:
		return f, invalidf("Options.Entities.Overflow is Block: choose another")
	}
	return f, nil
}

func invalidf(format string, args ...any) error {
	return mainstem.Errorf(mainstem.KindInvalid, "shard", format, args...)
}

// Cluster is the part of a *cluster.Cluster that a region uses.
type Cluster interface {
	Node() *actor.Node
	Register(name string, zero any) error
}

// Entity is the key and the lease that the actor of a key is made with.
type Entity struct {
	Key string
	// Lease is the ownership of the shard. The actor should fence its writes to the log with it.
	Lease *lease.Lease
}
