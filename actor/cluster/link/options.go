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
	MaxName        = 255       // bytes of the name of a node, or of an address that it advertises
	MaxConnections = 64        // connections of a session
	MaxSecret      = 4 << 10   // bytes of Options.Secret
	MinSecret      = 16        // bytes of Options.Secret, if there is one
	LargestMessage = 1 << 30   // bytes: the highest Options.MaxMessage
	LargestWindow  = 1 << 30   // bytes: the highest Options.Window
	SmallestWindow = 128 << 10 // bytes

	DefaultMaxMessage       = 16 << 20 // bytes
	DefaultWindow           = 16 << 20 // bytes
	DefaultCompressAbove    = 1 << 10  // bytes
	DefaultKeepAlive        = 5 * time.Second
	DefaultResume           = 30 * time.Second
	DefaultHandshakeTimeout = 5 * time.Second
	DefaultMinBackoff       = 50 * time.Millisecond
	DefaultMaxBackoff       = 5 * time.Second
	DefaultMaxHandshakes    = 64
	DefaultMaxPeers         = 1024
)

// Compression is an algorithm for the payloads of frames. Each node chooses one for the frames that
// it sends, and decompresses all.
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

// TLS configures how a node proves its name, and which authorities it trusts. The name of a node
// must be in its certificate: as a DNS name, or as the URI that [NameURI] returns.
type TLS struct {
	// Certificate is the node's certificate and key, for connections that it dials and accepts.
	Certificate tls.Certificate
	// Renew, if set, is called for each connection and returns the certificate in place of
	// Certificate, so that a renewed one is used without a restart.
	Renew func() (*tls.Certificate, error)
	// Roots are the trusted authorities. Those of the operating system are not used. Required.
	Roots *x509.CertPool
}

// Options configure an [Endpoint]. [Open] copies them and Secret, but not what TLS and Log point to.
type Options struct {
	// Name is the name of this node: 1 to [MaxName] bytes without /, NUL, CR and LF, and unique among
	// the nodes that can reach each other.
	Name string
	// Start is the incarnation of this node. It must be higher each time a node of this name is
	// started. Default: the Unix time in nanoseconds.
	Start uint64
	// Listen is the address "host:port" to accept connections at. Default "": this node only dials.
	Listen string
	// Advertise is the address at which peers dial this node if their Resolve finds none. Its host
	// may be empty: then peers take the one that this node connects from. Default: the address of the
	// listener.
	Advertise string
	// TLS must be set unless Plain is, which excludes it.
	TLS *TLS
	// Plain turns TLS off: anybody who can reach the connections can then read and change them. It
	// needs a Secret.
	Plain bool
	// Secret is shared by all nodes. Both ends of a connection prove that they have the same one,
	// without sending it. [MinSecret] to [MaxSecret] bytes, preferably random. With TLS it may be
	// empty, at all nodes or at none.
	Secret []byte
	// Connections is the number of connections, and of streams, of a session, 1 to
	// [MaxConnections]; the smaller number of both ends counts. Default: GOMAXPROCS, at most 4.
	Connections int
	// Compression compresses frames with payloads of CompressAbove bytes and more. Default: none.
	Compression Compression
	// CompressAbove is in bytes. Default [DefaultCompressAbove].
	CompressAbove int
	// MaxMessage is the limit of a message in bytes, at most [LargestMessage]; the smaller limit of
	// both ends counts. Default [DefaultMaxMessage].
	MaxMessage int
	// Window is the number of bytes that may wait to be written or acknowledged per peer, from
	// [SmallestWindow] to [LargestWindow]; the smaller one of both ends counts. It is divided among
	// the streams, each of which gets at least a quarter of SmallestWindow. Default [DefaultWindow].
	Window int
	// KeepAlive is the interval at which a connection is checked: if it has written nothing since the
	// last check, it writes a sign of life. A connection that receives nothing for about three times
	// as long is closed. At least 1 ms, like the durations below. Default [DefaultKeepAlive].
	KeepAlive time.Duration
	// Resume is how long a stream may be without a connection before the session ends. Default
	// [DefaultResume].
	Resume time.Duration
	// HandshakeTimeout bounds the time to resolve and dial an address, and separately that of the
	// handshake of a dialed or accepted connection. Default [DefaultHandshakeTimeout].
	HandshakeTimeout time.Duration
	// MinBackoff and MaxBackoff are the first and the longest pause after a failed dial. The pause
	// doubles with each failure, and a random part of up to a half is subtracted. Default
	// [DefaultMinBackoff] and [DefaultMaxBackoff].
	MinBackoff, MaxBackoff time.Duration
	// MaxHandshakes is the number of accepted connections that may be unproven. When one more is
	// accepted the oldest is closed. Default [DefaultMaxHandshakes].
	MaxHandshakes int
	// MaxPeers is the number of sessions above which dialers are refused. Sessions that this node
	// dials are not limited. Default [DefaultMaxPeers].
	MaxPeers int
	// Resolve returns the address of a node, as "host:port". Many goroutines call it. If it fails,
	// returns "", or is nil, the address that the node advertised in its last session is used.
	Resolve func(ctx context.Context, name string) (addr string, err error)
	// Log gets the beginnings and ends of sessions, and failures; those that strangers or peers can
	// cause are limited in number. Default: nothing is logged.
	Log *slog.Logger
}

// withDefaults returns a copy of o with the defaults filled in, or an Invalid error with all
// mistakes.
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

// mistakes returns one text for each wrong field.
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

// validName returns an error if a name cannot be that of a node.
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
