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

// DialForTest has e dial by a function instead of TCP. It must be called before e is used.
func (e *Endpoint) DialForTest(dial func(context.Context) (net.Conn, error)) {
	e.dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
}

// WelcomeForTest accepts a connection even if e is being closed, as if it had come before that. It
// must be called while a method of e's handler runs.
func (e *Endpoint) WelcomeForTest(c net.Conn) {
	e.running.Add(1)
	go e.welcome(c)
}

// ExpireForTest has the timers of a session's streams fire late, when they have been stopped.
func (p *Peer) ExpireForTest() {
	for _, s := range p.streams {
		s.expire()
	}
}
