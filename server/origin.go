package server

import (
	"fmt"
	"net"
	"net/http"
	"strings"
)

// Guard keeps web pages out of an HTTP listener. Every HTTP listener of a server stands behind
// one, whatever it asks of its clients: a browser sends what a page contains to any address,
// with the password that its user once gave for that address.
//
// Two things are refused, with 403. Requests that may change something (all methods but
// GET, HEAD and OPTIONS) and come from a page of another origin, as Sec-Fetch-Site or
// Origin say; programs send neither. And, where nobody is asked for a token or password
// and only this machine can connect, all requests to a name that is not this machine's:
// the owner of a name can let it mean 127.0.0.1, and then his page has the same origin as
// the listener (DNS rebinding). Answers to pages of other origins have no headers that
// would let them read them.
type Guard struct {
	Listen        string // HOST:PORT, as it is configured
	Authenticated bool   // requests carry a token or a password
	AnyName       bool   // answer to any name, also without authentication
}

// Handler returns next behind the guard.
func (g Guard) Handler(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	host, _, _ := net.SplitHostPort(g.Listen)
	local := isLoopback(host) && !g.Authenticated && !g.AnyName
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if local && foreignName(r.Host) {
			http.Error(w, "a server that asks for no token or password answers only to localhost and IP addresses; set a token or users, or insecure", http.StatusForbidden)
			return
		}
		if err := origins.Check(r); err != nil {
			http.Error(w, refusal(r), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refusal says why a request of a web page is refused.
func refusal(r *http.Request) string {
	from := r.Header.Get("Origin")
	if from == "" {
		from = "another origin"
	}
	return fmt.Sprintf("a web page of %.100s may not send a %.20s request to %.100s: only pages of this server, and programs, may", from, r.Method, r.Host)
}

// foreignName reports whether a request was sent to a name that is none of this machine.
func foreignName(name string) bool {
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	return name != "" && !strings.EqualFold(name, "localhost") && net.ParseIP(name) == nil
}
