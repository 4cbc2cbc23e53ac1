package kafkaserver

import (
	"errors"
	"net"
	"testing"

	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// A server that is shut down before its goroutine has begun to accept, as when the lease is lost at
// once, has not failed. One whose listener breaks has.
func TestShutdownBeforeAccept(t *testing.T) {
	topics, err := topic.Open(testengines.Memory(t), &topic.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := kafka.Open(t.Context(), topics, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(s.Shutdown(t.Context()), topics.Close()); err != nil {
			t.Error(err)
		}
	}()
	var failed error
	k := New()
	k.host = &server.Host{Failed: func(err error) { failed = err }}
	open := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}

	broken := open()
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	k.accept(s, broken, nil)
	if !errors.Is(failed, net.ErrClosed) {
		t.Errorf("a broken listener: got %v, want its error", failed)
	}
	failed = nil
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := open()
	k.accept(s, l, nil)
	if failed != nil {
		t.Errorf("after Shutdown: %v", failed)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open after Shutdown: %v", err)
	}
}
