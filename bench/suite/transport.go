package suite

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// Transport says how far away a contender answers: what an operation crosses between
// the goroutine that asks and the code that does the work. A call costs nanoseconds, a
// socket tens of microseconds, whatever is behind it.
type Transport string

// The transports. Contenders may have others; a few words each.
const (
	InProcess    Transport = "in process"    // a call: library and data are in the process that asks
	UnixSocket   Transport = "Unix socket"   // another process on this machine, through a socket that is a file
	LoopbackTCP  Transport = "loopback TCP"  // a protocol of its own over 127.0.0.1
	LoopbackTLS  Transport = "loopback TLS"  // the same, encrypted
	LoopbackHTTP Transport = "loopback HTTP" // HTTP over 127.0.0.1
	NetworkTCP   Transport = "network TCP"   // a protocol of its own, to what is perhaps another machine
	NetworkTLS   Transport = "network TLS"
	NetworkHTTP  Transport = "network HTTP"
	Unasked      Transport = "none" // nobody is asked: the size of a file
)

// away are the transports to another machine instead of those on loopback.
var away = map[Transport]Transport{LoopbackTCP: NetworkTCP, LoopbackTLS: NetworkTLS, LoopbackHTTP: NetworkHTTP}

// Reached returns how the contender of the entry is reached here: its Transport, or
// where that is on loopback, what it becomes for the address that the user gave.
func (e *Entry) Reached(env *Env) Transport {
	remote, ok := away[e.Transport]
	if address := env.Addresses[e.Address]; ok && e.Address != "" && address != "" {
		switch where(address) {
		case atSocket:
			return UnixSocket
		case elsewhere:
			return remote
		}
	}
	return e.Transport
}

// place is where an address leads.
type place int

const (
	here      place = iota // the loopback of this machine
	atSocket               // a socket that is a file
	elsewhere              // anywhere: names are not looked up
)

// where returns the farthest place of an address: one or several with commas between
// them, each host:port, a URL, or settings as PostgreSQL has them.
func where(address string) place {
	if i := strings.Index(address, "host="); i >= 0 && !strings.Contains(address, "://") {
		host, _, _ := strings.Cut(address[i+len("host="):], " ")
		return ofHost(strings.Trim(host, "'"))
	}
	farthest := here
	for one := range strings.SplitSeq(address, ",") {
		farthest = max(farthest, whereOne(strings.TrimSpace(one)))
	}
	return farthest
}

func whereOne(address string) place {
	if strings.Contains(address, "://") {
		u, err := url.Parse(address)
		if err != nil {
			return elsewhere
		}
		host := u.Hostname()
		if h := u.Query().Get("host"); h != "" {
			host = h
		}
		if host == "" && (strings.HasPrefix(u.Scheme, "postgres") || u.Scheme == "unix") {
			return atSocket
		}
		return ofHost(host)
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		return ofHost(host)
	}
	return ofHost(address)
}

func ofHost(host string) place {
	if host == "" || host == "localhost" {
		return here
	}
	if strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") {
		return atSocket
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		return here
	}
	return elsewhere
}
