package netio

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/actor/actortest"
)

// If serving fails, the connections of the server are closed before the actor ends.
func TestConnectionsOfAServerThatFailsAreClosed(t *testing.T) {
	s := &Server{Address: "127.0.0.1:0", Handler: http.NotFoundHandler()}
	node := actortest.Node(t)
	down := actortest.Watch(t, node, actortest.Spawn(t, node, s, nil))
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(actortest.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if err := s.listener.Close(); err != nil { // Accept fails from now on
		t.Fatal(err)
	}
	if d := down.Next(); !errors.Is(d.Reason, net.ErrClosed) {
		t.Errorf("the server ended for %v, want %v", d.Reason, net.ErrClosed)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("reading from a connection of the server: %v, want EOF", err)
	}
}
