package netio

import (
	"errors"
	"net"
	"testing"
)

// A message about the listener of an earlier incarnation does not end the present one.
func TestStaleMessagesAreDropped(t *testing.T) {
	type someListener struct{ net.Listener }
	old, now, boom := &someListener{}, &someListener{}, errors.New("boom")
	l, s := &Listener{listener: now}, &Server{listener: now}
	for _, m := range []Address{{from: old, err: boom}, {from: now, err: boom}} {
		var want error
		if m.from == now {
			want = boom
		}
		if err := l.Receive(nil, m); err != want {
			t.Errorf("Listener: %v, want %v", err, want)
		}
		if err := s.Receive(nil, m); err != want {
			t.Errorf("Server: %v, want %v", err, want)
		}
	}
	left, right := net.Pipe()
	defer left.Close()
	defer right.Close()
	if err := l.Receive(nil, Address{from: old, accepted: left}); err != nil || l.conns != 0 {
		t.Errorf("a connection of the earlier listener: %v, %d connections", err, l.conns)
	}
}
