package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Limits and defaults.
const (
	MaxName        = 255     // bytes of the name of a node, or of an address that it advertises
	MaxConnections = 64      // connections of a session
	MaxSecret      = 4 << 10 // bytes of Options.Secret
	MinSecret      = 16      // bytes of Options.Secret, if there is one
	LargestMessage = 1 << 30 // bytes: the highest Options.MaxMessage
	LargestWindow  = 1 << 30 // bytes: the highest Options.Window
	SmallestWindow = 128 << 10

	DefaultMaxMessage       = 16 << 20
	DefaultWindow           = 16 << 20
	DefaultCompressAbove    = 1 << 10
	DefaultKeepAlive        = 5 * time.Second
	DefaultResume           = 30 * time.Second
	DefaultHandshakeTimeout = 5 * time.Second
	DefaultMinBackoff       = 50 * time.Millisecond
	DefaultMaxBackoff       = 5 * time.Second
	DefaultMaxHandshakes    = 64
	DefaultMaxPeers         = 1024
)

// Compression says how the frames of a connection are compressed. Each side chooses
// for what it sends; all are always understood.
type Compression uint8

// The compressions.
const (
	Uncompressed Compression = iota
	LZ4
	Zstandard
)

// String returns the compression's name in lower case.
func (c Compression) String() string {
	switch c {
	case Uncompressed:
		return "none"
	case LZ4:
		return "lz4"
	case Zstandard:
		return "zstd"
	}
	return fmt.Sprintf("unknown compression %d", uint8(c))
}

// TLS is how a node proves its name, and which authorities it trusts. The name of a node must
// be in its certificate: as a DNS name, or as the URI that [NameURI] returns.
type TLS struct {
	// Certificate is the node's certificate and key, for both ends of connections.
	Certificate tls.Certificate
	// Renew, if set, is asked for the certificate instead, for each connection, so that
	// a renewed one is used without a restart.
	Renew func() (*tls.Certificate, error)
	// Roots are the authorities whose certificates are believed. Those of the operating
	// system are never asked.
	Roots *x509.CertPool
}

// Options say how an endpoint works. They are copied.
type Options struct {
	// Name is the name of this node. No two nodes that can reach each other have the same.
	Name string
	// Start is the incarnation of this node. It must grow from one node of a name to the
	// next. Default: the time in nanoseconds.
	Start uint64
	// Listen is the host:port to accept connections at. Default "": none are accepted, only dialed.
	Listen string
	// Advertise is the address at which peers dial this node when their
	// Resolve finds none. Default: the address of the listener.
	Advertise string
	// TLS is needed unless Plain is set.
	TLS *TLS
	// Plain does without TLS: anybody who can reach the connections can then read and
	// change them. It needs a Secret.
	Plain bool
	// Secret is known to all nodes and to nobody else: both ends prove that they have
	// it, without showing it, before anything else. [MinSecret] to [MaxSecret] bytes, best random. With
	// TLS it may be empty, which then is what both ends must have.
	Secret []byte
	// Connections is how many connections a session has; the smaller number of both
	// ends counts. Default: the number of processors Go uses, at most 4.
	Connections int
	// Compression compresses frames of CompressAbove bytes and more. Default: none.
	Compression Compression
	// CompressAbove defaults to [DefaultCompressAbove].
	CompressAbove int
	// MaxMessage is how many bytes a message may have. Default [DefaultMaxMessage].
	MaxMessage int
	// Window is how many bytes may wait to be written or acknowledged per peer, divided among
	// its connections; the smaller one of both ends counts. Default [DefaultWindow].
	Window int
	// KeepAlive is after which silence a sign of life is sent; after three times as
	// long without one a connection is given up. Default [DefaultKeepAlive].
	KeepAlive time.Duration
	// Resume is for how long a broken session waits to be resumed. Default [DefaultResume].
	Resume time.Duration
	// HandshakeTimeout bounds the time from dialing or accepting a connection to the
	// end of its handshake. Default [DefaultHandshakeTimeout].
	HandshakeTimeout time.Duration
	// MinBackoff and MaxBackoff are the shortest and longest pause after a failed
	// attempt to dial; it doubles from one to the other, and a random half is left out. Default
	// [DefaultMinBackoff] and [DefaultMaxBackoff].
	MinBackoff, MaxBackoff time.Duration
	// MaxHandshakes is how many accepted connections may be unproven; when there
	// are more the oldest is closed. Default [DefaultMaxHandshakes].
	MaxHandshakes int
	// MaxPeers is how many sessions there may be. Default [DefaultMaxPeers].
	MaxPeers int
	// Resolve returns the address of a node, as host:port. Default: the address
	// that the node advertised when it was connected before.
	Resolve func(ctx context.Context, name string) (addr string, err error)
	// Log takes what an operator should know. Default: nothing is logged.
	Log *slog.Logger
}

// withDefaults returns a copy of o that is complete, or all of its mistakes.
func (o *Options) withDefaults() (*Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	c.Secret = slices.Clone(c.Secret)
	if c.Start == 0 {
		c.Start = uint64(time.Now().UnixNano())
	}
	if c.Connections == 0 {
		c.Connections = min(4, runtime.GOMAXPROCS(0))
	}
	setDefault(&c.CompressAbove, DefaultCompressAbove)
	setDefault(&c.MaxMessage, DefaultMaxMessage)
	setDefault(&c.Window, DefaultWindow)
	setDefault(&c.KeepAlive, DefaultKeepAlive)
	setDefault(&c.Resume, DefaultResume)
	setDefault(&c.HandshakeTimeout, DefaultHandshakeTimeout)
	setDefault(&c.MinBackoff, DefaultMinBackoff)
	setDefault(&c.MaxBackoff, max(DefaultMaxBackoff, c.MinBackoff))
	setDefault(&c.MaxHandshakes, DefaultMaxHandshakes)
	setDefault(&c.MaxPeers, DefaultMaxPeers)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if wrong := c.mistakes(); len(wrong) > 0 {
		return nil, mainstem.Errorf(mainstem.KindInvalid, "open link", "%s", strings.Join(wrong, "; "))
	}
	return &c, nil
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func (o *Options) mistakes() []string {
	var wrong []string
	note := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Sprintf("Options."+format, args...))
		}
	}
	if err := validName(o.Name); err != nil {
		note(true, "Name: %s", err)
	}
	if o.Listen != "" {
		_, _, err := net.SplitHostPort(o.Listen)
		note(err != nil, "Listen: %v", err)
	}
	note(len(o.Advertise) > MaxName, "Advertise has %d bytes: the limit is %d", len(o.Advertise), MaxName)
	note(o.Plain && o.TLS != nil, "Plain and TLS are both set: choose one")
	note(!o.Plain && o.TLS == nil, "TLS is not set: package devca makes certificates for development; Plain does without")
	note(o.Plain && len(o.Secret) == 0, "Secret is empty: with Plain it is the only proof of who connects")
	note(len(o.Secret) > 0 && len(o.Secret) < MinSecret || len(o.Secret) > MaxSecret,
		"Secret has %d bytes: want %d to %d", len(o.Secret), MinSecret, MaxSecret)
	if t := o.TLS; t != nil {
		note(t.Roots == nil, "TLS.Roots is not set: no peer could be believed")
		note(len(t.Certificate.Certificate) == 0 && t.Renew == nil, "TLS has neither Certificate nor Renew")
	}
	bound := func(name string, got, low, high int) {
		note(got < low || got > high, "%s is %d: want %d to %d", name, got, low, high)
	}
	bound("Connections", o.Connections, 1, MaxConnections)
	bound("MaxMessage", o.MaxMessage, 1, LargestMessage)
	bound("Window", o.Window, SmallestWindow, LargestWindow)
	bound("CompressAbove", o.CompressAbove, 1, LargestMessage)
	bound("MaxHandshakes", o.MaxHandshakes, 1, 1<<16)
	bound("MaxPeers", o.MaxPeers, 1, 1<<16)
	note(o.Compression > Zstandard, "Compression is %d: there is no such compression", o.Compression)
	note(o.MinBackoff > o.MaxBackoff, "MinBackoff %s is longer than MaxBackoff %s", o.MinBackoff, o.MaxBackoff)
	for _, d := range []struct {
		name string
		time.Duration
	}{
		{"KeepAlive", o.KeepAlive}, {"Resume", o.Resume}, {"HandshakeTimeout", o.HandshakeTimeout}, {"MinBackoff", o.MinBackoff},
	} {
		note(d.Duration < time.Millisecond, "%s is %s: want 1ms or more", d.name, d.Duration)
	}
	return wrong
}

// validName returns an error for what cannot be the name of a node.
func validName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name of a node is empty")
	case len(name) > MaxName:
		return fmt.Errorf("the name of a node has %d bytes: the limit is %d", len(name), MaxName)
	case strings.ContainsAny(name, "/\x00\r\n"):
		return fmt.Errorf("the name %.64q of a node has a character that ends names elsewhere", name)
	}
	return nil
}
