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

// DefaultRetries is how often a call is tried again; see [Options.Retries].
const DefaultRetries = 3

// Protocol is how calls are put into HTTP. The server speaks all of them.
type Protocol uint8

// The protocols.
const (
	Connect Protocol = iota // works over HTTP/1.1 and HTTP/2
	GRPC                    // needs HTTP/2 all the way; for networks that know gRPC
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

// Transport is how a Log reaches its server.
type Transport uint8

// The transports.
const (
	// Auto uses sessions. Where the server or a proxy refuses them it uses RPC, over HTTP/1.1
	// if HTTP/2 gets no answer, and asks again after a minute; [Info] says so. It uses RPC at
	// once if one of Protocol, JSON, Compression, HTTP1 and HTTPClient is set, which sessions
	// do not have.
	Auto     Transport = iota
	Sessions           // one connection that carries all calls; it fails where that is refused
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
	// Insecure allows to send Token without TLS to another machine.
	Insecure bool
	// TLS configures https:// URLs; nil trusts the system's authorities.
	TLS *tls.Config

	// Transport is how the server is reached; the default is [Auto].
	Transport Transport

	// HTTP1 speaks HTTP/1.1 instead of HTTP/2: one connection for each running call. [RPC]
	// without TLS needs it where a proxy speaks nothing else; with TLS the handshake says.
	HTTP1 bool
	// Protocol is how calls are put into HTTP; the default is [Connect].
	Protocol Protocol
	// JSON encodes messages in JSON instead of Protobuf, for looking at the traffic.
	JSON bool
	// Compression asks for gzip in answers and sends gzip. It saves nothing on
	// loopback; a server refuses it unless it was configured to take it.
	Compression bool
	// HTTPClient makes the calls instead of a client of the Log's own; TLS and HTTP1
	// have no effect then, and Close leaves its connections open.
	HTTPClient *http.Client

	// Limits are checked before a batch is sent; zero fields leave it to the server.
	Limits mainstem.Limits
	// Retries is how often a Commit with a batch ID that was Unavailable is tried
	// again, and a read or a Commit in a session whose connection was lost; 0 means [DefaultRetries], negative
	// never.
	Retries int
	// BatchIDs gives each batch that writes, and has no ID, one of its own. Its outcome is
	// then found again as long as the log remembers IDs (24 hours by default), whatever
	// happens to the connection and to the server: also after a restart, by another server of
	// the same log, and over RPC. Commit tries until it knows the outcome, or its context
	// ends. Without BatchIDs only the server that lost the connection knows, for a minute.
	// The log keeps the receipt of each batch: docs/sessions.md says what that costs.
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

// onlyRPC reports whether an option is set that only RPC has.
func (o *Options) onlyRPC() bool {
	return o.Protocol != Connect || o.JSON || o.Compression || o.HTTP1 || o.HTTPClient != nil
}

// validate reports everything that is wrong with o for a server at u.
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
			err = e.Err // without the URL, which may hold a password
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
