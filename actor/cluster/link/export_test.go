package link

import (
	"context"
	"net"

	"github.com/mainstemdev/mainstem/actor/cluster/link/internal/frame"
)

// ProveForTest takes a connection without TLS through a dialer's handshake.
func ProveForTest(c net.Conn, secret []byte, hello frame.Hello, t frame.Terms) error {
	key, err := deriveKey(secret)
	if err != nil {
		return err
	}
	seen, err := newTranscript(key, nil)
	if err != nil {
		return err
	}
	e := &Endpoint{o: &Options{Name: hello.Name, Start: hello.Start}}
	_, _, err = (&shake{e: e, net: c, raw: c, seen: seen}).call(hello.To, t)
	return err
}

// PipeForTest has e dial to through pipes in memory, which hold nothing, instead of TCP.
// It must be called before e is used.
func (e *Endpoint) PipeForTest(to *Endpoint) {
	e.dialer = func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		if to.enter(there) {
			to.running.Add(1)
			go to.welcome(there)
		}
		return here, nil
	}
}

// ExpireForTest has the timers of a session's streams fire late, when they have been stopped.
func (p *Peer) ExpireForTest() {
	for _, s := range p.streams {
		s.expire()
	}
}
