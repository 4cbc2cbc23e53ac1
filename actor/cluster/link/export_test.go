package link

import (
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
