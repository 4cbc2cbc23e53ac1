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

// SmallestMessage is the lowest [Options.MaxMessage] in bytes: what nodes send each other besides
// messages must fit too.
const SmallestMessage = 1 << 10

// Resolver finds the addresses of nodes by name.
type Resolver interface {
	// Resolve returns the address "host:port" at which a node listens. It fails with NotFound if it
	// has none. Many goroutines may call it. It should return when ctx ends.
	Resolve(ctx context.Context, node string) (addr string, err error)
}

// Announcer is a [Resolver] that publishes the address of this node, if it listens. [Join] calls
// Announce before it returns, with the start of the node; [Cluster.Leave] calls Withdraw, also
// after an Announce that failed.
type Announcer interface {
	Announce(ctx context.Context, node string, start uint64, addr string) error
	Withdraw(ctx context.Context, node string, start uint64) error
}

// Options configure a [Cluster]. TLS, or Secret and Plain, must be set; so nil is refused. [Join]
// copies Options and Peers.
type Options struct {
	// Listen is the address "host:port" at which other nodes reach this one; port 0 takes
	// a free one (see [Cluster.Addr]). Default "": this node only dials.
	Listen string
	// Advertise is the address that other nodes dial. Default: that of the listener.
	Advertise string

	// TLS configures the certificate of this node, and the authorities that it trusts. Package devca
	// makes certificates for development.
	TLS *link.TLS
	// Secret is shared by all nodes of the cluster. Two nodes prove to each other that they have it,
	// without sending it, before anything else is read. With TLS it may be empty.
	Secret []byte
	// Plain turns TLS off: anybody who can reach the connections can then read and change them. It is
	// for the loopback of one machine, and needs a Secret.
	Plain bool

	// Peers are the addresses of nodes by name.
	Peers map[string]string
	// Resolver finds nodes that are not in Peers. Default: none. A node that was connected before is
	// found by the address that it advertised, if the Resolver does not find it.
	Resolver Resolver

	// Registry holds the types of messages by name; see [Cluster.Register]. Join adds
	// the errors of this module to it. Default: a new one.
	Registry *binary.Registry
	// Logger gets the nodes that go up and down, and failures. Default: discards.
	Logger *slog.Logger

	// DialTimeout limits the time that a send waits for a node to be connected, besides its context.
	// Default [DefaultDialTimeout].
	DialTimeout time.Duration
	// AnnounceTimeout limits the time that Join waits for an [Announcer]. After a crash that may
	// have to wait until the session of the earlier life has ended. Default
	// [DefaultAnnounceTimeout].
	AnnounceTimeout time.Duration
	// DownAfter is how long a node may be out of reach before it is down. Until then messages to it
	// wait for a connection. Default [DefaultDownAfter].
	DownAfter time.Duration
	// Compression compresses large frames. Default: none.
	Compression link.Compression
	// MaxMessage is the limit of an encoded message in bytes, from [SmallestMessage] to
	// [link.LargestMessage]; the smaller limit of both nodes counts. A type whose name and schema
	// exceed it cannot be sent, and the texts of errors that do are cut. Default
	// [link.DefaultMaxMessage].
	MaxMessage int
	// Connections is the number of connections to a peer. Default: see [link.Options].
	Connections int
	// Tune, if set, may change all other options of the connections, but not Name and Start.
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

// link returns the options of the endpoint, or an Invalid error.
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
	if l.MaxMessage != 0 && l.MaxMessage < SmallestMessage {
		return nil, invalidf("Options.MaxMessage is %d: want 0 (the default) or %d to %d bytes", l.MaxMessage, SmallestMessage, link.LargestMessage)
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
