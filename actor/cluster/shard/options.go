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
	DefaultBuffer  = 10_000
	DefaultLinger  = time.Second
	admissionLimit = 1024 // messages that wait for admission
	maxName        = actor.MaxName - len(actorPrefix)
	actorPrefix    = "shard/" // of the name that a region's actor is registered under
)

// How long things take that others are to do.
const (
	flushPatience = 30 * time.Second // for the old way to be empty
)

// retryPolicy is the pause before a request that failed is sent again.
var retryPolicy = backoff.Policy{First: 100 * time.Millisecond, Max: 10 * time.Second}

// Options configure a [Region]; nil means the defaults. They are copied. All
// regions of one name must have the same Shards.
type Options struct {
	// Shards is how many there are: some ten for each node that there will ever be.
	// Default [DefaultShards].
	Shards int
	// Buffer is how many messages for one shard wait on this node while the shard has
	// no owner, and how many messages of this node may be on their way to other nodes before
	// senders wait. Default [DefaultBuffer].
	Buffer int
	// Entities are the options of each actor, without Name; Idle defaults to
	// [actor.DefaultIdle]. The policy [actor.Block] is not for them: one full mailbox would block a shard.
	Entities *actor.Options
	// Linger is how long a region that is closed passes on what still comes to it, from
	// nodes that have not seen yet that its shards have moved. Default [DefaultLinger].
	Linger time.Duration
	// Logger gets what fails. Default: discards.
	Logger *slog.Logger
}

// withDefaults returns o filled in, or an Invalid error.
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

// Cluster is what a region needs of one: its node, and that it can name the types of messages.
// A cluster.Cluster is one.
type Cluster interface {
	Node() *actor.Node
	Register(name string, zero any) error
}

// Entity is the key and the lease that the actor of a key is made with.
type Entity struct {
	Key string
	// Lease is the ownership of the shard: what the actor writes to the log it should
	// fence with it.
	Lease *lease.Lease
}
