package ingest_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/alert/ingest"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// lateListener accepts nothing before the receiver closes, as on a machine that has no
// time for the receiver.
type lateListener struct {
	*net.TCPListener
	accepting, closing chan struct{}
	first, last        sync.Once
}

func (l *lateListener) SetDeadline(at time.Time) error {
	err := l.TCPListener.SetDeadline(at)
	l.last.Do(func() { close(l.closing) })
	return err
}

func (l *lateListener) Close() error {
	err := l.TCPListener.Close()
	l.last.Do(func() { close(l.closing) })
	return err
}

func (l *lateListener) Accept() (net.Conn, error) {
	l.first.Do(func() { close(l.accepting) })
	<-l.closing
	return l.TCPListener.Accept()
}

// TestCloseTakesWhatHasCome: what senders have sent before Close is written, also that of
// connections that were not yet accepted.
func TestCloseTakesWhatHasCome(t *testing.T) {
	sink := &memory{}
	r, err := ingest.OpenSyslog(sink, nil)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	late := &lateListener{TCPListener: tcp.(*net.TCPListener), accepting: make(chan struct{}), closing: make(chan struct{})}
	go func() { ended <- r.ServeTCP(late) }()
	const senders, each = 20, 50
	for i := range senders {
		c := dial(t, "tcp", tcp.Addr().String())
		for j := range each {
			send(t, c, fmt.Sprintf("<11>1 - h%d a - - - message %d\n", i, j))
		}
	}
	<-late.accepting
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if n := len(sink.all("Node")); n != senders*each {
		t.Errorf("%d of %d messages were written: %+v", n, senders*each, r.Counters())
	}
}

// TestCloseEndsWithASenderThatDoesNotPause: draining is bounded.
func TestCloseEndsWithASenderThatDoesNotPause(t *testing.T) {
	r := receive(t, &memory{}, nil)
	c := dial(t, "tcp", r.tcp)
	text := "<11>1 - h a - - - " + strings.Repeat("x", 60<<10) + "\n"
	var sender sync.WaitGroup
	sender.Go(func() {
		for {
			if _, err := c.Write([]byte(text)); err != nil {
				return
			}
		}
	})
	testkit.Eventually(t, "messages come", func() bool { return r.Counters().Received > 3 })
	if err := r.close(); err != nil {
		t.Error(err)
	}
	sender.Wait()
}

// TestCloseOfAnIdleReceiver waits for none of its connections.
func TestCloseOfAnIdleReceiver(t *testing.T) {
	r := receive(t, &memory{}, nil)
	for range 3 {
		dial(t, "tcp", r.tcp)
	}
	testkit.Eventually(t, "they are accepted", func() bool { return r.Counters().Connections == 3 })
	if err := r.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	if n := r.Counters().ConnectionsBroken; n != 0 {
		t.Errorf("%d connections count as broken", n)
	}
}
