package server

import (
	"fmt"
	"net"
	"net/http"
	"strings"
)

// Guard protects an HTTP listener from web pages. Every HTTP listener of a server is behind a
// Guard, even if it authenticates its clients: a browser sends the requests of a page to any
// address, with the password that its user once gave for that address.
//
// Guard refuses two kinds of requests, with 403. First, requests that may change something (all
// methods except GET, HEAD and OPTIONS) and come from a page of another origin according to
// Sec-Fetch-Site or Origin, which programs do not send. Second, if the listener does not
// authenticate and only this machine can connect, all requests to a name that is not of this
// machine: the owner of a name can let it resolve to 127.0.0.1, and then a page of that name has
// the same origin as the listener (DNS rebinding). Answers do not have headers that would let
// pages of other origins read them.
type Guard struct {
	Listen        string // HOST:PORT, as it is configured
	Authenticated bool   // requests carry a token or a password
	AnyName       bool   // accept any host name, even without authentication
}

// Handler returns next behind the Guard.
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

// refusal returns why a request of a web page is refused, or "" if it is not.
func refusal(r *http.Request) string {
	from := r.Header.Get("Origin")
	if from == "" {
		from = "another origin"
	}
	return fmt.Sprintf("a web page of %.100s may not send a %.20s request to %.100s: only pages of this server, and programs, may", from, r.Method, r.Host)
}

// foreignName reports whether name, the host of a request, is not a name of this machine.
func foreignName(name string) bool {
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	return name != "" && !strings.EqualFold(name, "localhost") && net.ParseIP(name) == nil
}
