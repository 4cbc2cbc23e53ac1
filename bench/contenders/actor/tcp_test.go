package actor

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// busy is a listener that is slow to accept, as on a machine with other work, unless it is
// closed meanwhile.
type busy struct {
	net.Listener
	once   sync.Once
	closed chan struct{}
}

func (l *busy) Accept() (net.Conn, error) {
	slow := time.NewTimer(50 * time.Millisecond)
	defer slow.Stop()
	select {
	case <-slow.C:
	case <-l.closed:
	}
	return l.Listener.Accept()
}

func (l *busy) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// TestDialWaitsForTheOtherEnd: a connection is there to stay when dial returns, however
// late it is accepted.
func TestDialWaitsForTheOtherEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w, err := dialOn(t.Context(), &busy{Listener: l, closed: make(chan struct{})}, func(c net.Conn) { _, _ = io.Copy(c, c) })
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var b [word]byte
	if _, err := w.Write(b[:]); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(w, b[:]); err != nil {
		t.Fatal(err)
	}
}
