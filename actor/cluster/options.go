package cluster

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
	"github.com/mainstemdev/mainstem/codec/binary"
)

// The defaults of [Options].
const (
	DefaultDialTimeout     = 5 * time.Second
	DefaultAnnounceTimeout = 30 * time.Second
	DefaultDownAfter       = link.DefaultResume
)

// Resolver finds the addresses of nodes by name.
type Resolver interface {
	// Resolve returns the address "host:port" at which a node listens. It fails with
	// NotFound if it knows none.
	Resolve(ctx context.Context, node string) (addr string, err error)
}

// Announcer is a [Resolver] that is given the address at which this node listens. Announce is
// called by [Join] before it returns, Withdraw by [Cluster.Leave].
type Announcer interface {
	Announce(ctx context.Context, node string, start uint64, addr string) error
	Withdraw(ctx context.Context, node string, start uint64) error
}

// Options configure a [Cluster]; nil means the defaults, which lack a proof of who
// belongs to the cluster: TLS, or Secret and Plain, must be set. They are copied.
type Options struct {
	// Listen is the address "host:port" at which other nodes reach this one; port 0 takes
	// a free one (see [Cluster.Addr]). Default "": this node only dials.
	Listen string
	// Advertise is the address that other nodes dial, if it is not that of the
	// listener. Default: that of the listener.
	Advertise string

	// TLS is how this node proves its name, and which authorities it trusts. Package devca makes
	// certificates for development.
	TLS *link.TLS
	// Secret is shared by all nodes of the cluster. Each proves to the other that it has it,
	// without sending it, before anything else is read. With TLS it may be empty.
	Secret []byte
	// Plain does without TLS: anybody who can reach the connections can then read and change
	// what is sent. It is for the loopback of one machine. It needs a Secret.
	Plain bool

	// Peers are the addresses of nodes by name.
	Peers map[string]string
	// Resolver finds nodes that are not in Peers. Default: none. Nodes that have connected
	// before are found without it.
	Resolver Resolver

	// Registry holds the types of messages by name; see [Cluster.Register]. Join adds
	// the errors of this module to it. Default: a new one.
	Registry *binary.Registry
	// Logger gets what peers do wrong and when they come and go. Default: discards.
	Logger *slog.Logger

	// DialTimeout is how long an actor that sends to a node waits for it to be connected, if no
	// context says less. Default [DefaultDialTimeout].
	DialTimeout time.Duration
	// AnnounceTimeout is how long Join waits for an [Announcer], which after a crash may
	// have to wait until the life before is forgotten. Default [DefaultAnnounceTimeout].
	AnnounceTimeout time.Duration
	// DownAfter is how long a node may be out of reach before it is down: until then
	// all that was sent waits for the connection to come back. Default [DefaultDownAfter].
	DownAfter time.Duration
	// Compression compresses large frames. Default: none.
	Compression link.Compression
	// MaxMessage is how many bytes a message may have. Default [link.DefaultMaxMessage].
	MaxMessage int
	// Connections is how many connections there are to a peer. Default: see [link.Options].
	Connections int
	// Tune, if set, may change what is left of the options of the connections.
	Tune func(*link.Options)
}

func (o *Options) withDefaults() *Options {
	var own Options
	if o != nil {
		own = *o
	}
	own.Peers = maps.Clone(own.Peers)
	if own.Registry == nil {
		own.Registry = binary.New(nil)
	}
	if own.Logger == nil {
		own.Logger = slog.New(slog.DiscardHandler)
	}
	if own.DialTimeout == 0 {
		own.DialTimeout = DefaultDialTimeout
	}
	if own.AnnounceTimeout == 0 {
		own.AnnounceTimeout = DefaultAnnounceTimeout
	}
	return &own
}

// link returns the options of the endpoint.
func (o *Options) link(node *actor.Node) (*link.Options, error) {
	if o.DialTimeout < 0 {
		return nil, invalidf("Options.DialTimeout is %s: want 0 (the default) or more", o.DialTimeout)
	}
	if o.AnnounceTimeout < 0 {
		return nil, invalidf("Options.AnnounceTimeout is %s: want 0 (the default) or more", o.AnnounceTimeout)
	}
	l := &link.Options{
		Name: node.Name(), Start: node.Start(), Listen: o.Listen, Advertise: o.Advertise,
		TLS: o.TLS, Secret: o.Secret, Plain: o.Plain,
		Connections: o.Connections, Compression: o.Compression, MaxMessage: o.MaxMessage, Resume: o.DownAfter,
		Log: o.Logger,
	}
	if len(o.Peers) > 0 || o.Resolver != nil {
		l.Resolve = o.resolve
	}
	if o.Tune != nil {
		o.Tune(l)
	}
	if l.Name != node.Name() || l.Start != node.Start() {
		return nil, invalidf("Options.Tune has changed the name or start of the node")
	}
	return l, nil
}

// resolve asks Peers, then the Resolver.
func (o *Options) resolve(ctx context.Context, node string) (string, error) {
	if addr, ok := o.Peers[node]; ok {
		return addr, nil
	}
	if o.Resolver != nil {
		return o.Resolver.Resolve(ctx, node)
	}
	return "", notFound("find node "+node, "Options.Peers does not name it, and there is no Resolver")
}

func notFound(op, why string) error {
	return mainstem.Errorf(mainstem.KindNotFound, op, "%s", why)
}

func invalidf(format string, args ...any) error {
	return mainstem.Errorf(mainstem.KindInvalid, "cluster", format, args...)
}
