package remotelog

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// DefaultRetries is the default of [Options.Retries].
const DefaultRetries = 3

// Protocol is the encoding of RPC calls in HTTP. A server speaks all of them.
type Protocol uint8

// Values of Protocol.
const (
	Connect Protocol = iota // works over HTTP/1.1 and HTTP/2
	GRPC                    // needs HTTP/2 on the whole path; for networks that are configured for gRPC
	GRPCWeb                 // works over HTTP/1.1 and HTTP/2
)

var protocolNames = [...]string{"connect", "grpc", "grpc-web"}

// String returns "connect", "grpc" or "grpc-web".
func (p Protocol) String() string {
	if int(p) < len(protocolNames) {
		return protocolNames[p]
	}
	return "unknown protocol"
}

// Transport is how a Log connects to its server.
type Transport uint8

// Values of Transport.
const (
	// Auto uses sessions. If the server or a proxy refuses them, it uses RPC, over HTTP/1.1 if
	// HTTP/2 gets no answer, and tries sessions again after a minute; [Info] reports it. If one
	// of Protocol, JSON, Compression, HTTP1 and HTTPClient is set, which sessions do not support,
	// it uses RPC only.
	Auto     Transport = iota
	Sessions           // one connection for all calls; calls fail if sessions are refused
	RPC                // Connect, gRPC or gRPC-Web: see [Options.Protocol]
)

var transportNames = [...]string{"auto", "sessions", "rpc"}

// String returns "auto", "sessions" or "rpc".
func (t Transport) String() string {
	if int(t) < len(transportNames) {
		return transportNames[t]
	}
	return "unknown transport"
}

// Options configures [Open]. Nil and zero fields mean the defaults.
type Options struct {
	// Token is presented to the server as a bearer token.
	Token string
	// Insecure allows sending Token to another machine without TLS.
	Insecure bool
	// TLS is the configuration for https:// URLs; nil trusts the authorities of the system.
	TLS *tls.Config

	// Transport is how the Log connects to the server. Default [Auto].
	Transport Transport

	// HTTP1 selects HTTP/1.1 instead of HTTP/2, with one connection for each running call. [RPC]
	// without TLS needs it behind a proxy that does not speak HTTP/2; with TLS the handshake
	// decides.
	HTTP1 bool
	// Protocol is the encoding of RPC calls. Default [Connect].
	Protocol Protocol
	// JSON encodes messages in JSON instead of Protobuf, which makes the traffic readable.
	JSON bool
	// Compression sends gzip and asks for it in answers. It is of no use on loopback. A server
	// refuses it unless it is configured to accept it.
	Compression bool
	// HTTPClient makes the calls instead of a client of the Log. TLS and HTTP1 have no effect
	// then, and Close does not close its connections.
	HTTPClient *http.Client

	// Limits are checked before a batch is sent. Fields that are zero are checked by the server
	// only.
	Limits mainstem.Limits
	// Retries is how often a call is repeated: a Commit with a batch ID that failed with
	// Unavailable, and a read or a Commit in a session whose connection was lost. 0 means
	// [DefaultRetries], a negative value none.
	Retries int
	// BatchIDs gives an ID to each batch that writes and has none. Its outcome can then be found
	// as long as the log remembers IDs (24 hours by default), regardless of the connection and
	// the server: also after a restart, from another server of the same log, and over RPC. Commit
	// repeats the call until the outcome is known or its context ends. Without BatchIDs only the
	// server that lost the connection has the outcome, for a minute. The log keeps the receipt of
	// each batch: for the cost see docs/sessions.md.
	BatchIDs bool
}

// withDefaults returns a copy of o with defaults for fields that are not set.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Retries == 0 {
		c.Retries = DefaultRetries
	}
	c.Retries = max(c.Retries, 0)
	for _, n := range []*int{&c.Limits.MaxValue, &c.Limits.MaxBatchBytes, &c.Limits.MaxBatchWrites} {
		if *n == 0 {
			*n = int(^uint(0) >> 1)
		}
	}
	return c
}

// onlyRPC reports whether an option is set that sessions do not support.
func (o *Options) onlyRPC() bool {
	return o.Protocol != Connect || o.JSON || o.Compression || o.HTTP1 || o.HTTPClient != nil
}

// validate returns all errors in o, for a server at u.
func (o *Options) validate(u *url.URL) error {
	var problems []error
	if o.Protocol > GRPCWeb {
		problems = append(problems, fmt.Errorf("protocol %d is not one that this version knows", o.Protocol))
	}
	if o.Transport > RPC {
		problems = append(problems, fmt.Errorf("transport %d is not one that this version knows", o.Transport))
	}
	if o.Transport == Sessions && o.onlyRPC() {
		problems = append(problems, errors.New("sessions have no Protocol, JSON, Compression, HTTP1 or HTTPClient: use Auto or RPC with these"))
	}
	if o.Protocol == GRPC && o.HTTP1 {
		problems = append(problems, errors.New("gRPC needs HTTP/2: use GRPCWeb or Connect with HTTP1"))
	}
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		problems = append(problems, errors.New("the token has blanks or characters that HTTP does not carry"))
	}
	if o.Token != "" && u.Scheme == "http" && !o.Insecure && !loopback(u.Hostname()) {
		problems = append(problems, fmt.Errorf("the token would travel to %s in clear text: use https, or set Insecure", u.Hostname()))
	}
	return errors.Join(problems...)
}

// parseURL returns the base URL of a server.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err // without the URL, which may have a password
		}
		return nil, fmt.Errorf("the URL is malformed: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the URL has the scheme %q: want http://host:port or https://host:port", u.Scheme)
	case u.Host == "" || u.Hostname() == "":
		return nil, errors.New("the URL has no host: want http://host:port")
	case u.User != nil:
		return nil, errors.New("the URL has a user or password: put the token into Options")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the URL of %s has a query or fragment: want http://host:port", u.Host)
	}
	return u, nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
