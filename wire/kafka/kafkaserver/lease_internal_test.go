package kafkaserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/backoff"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/lease"
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

// slow is a log whose commits take a time, once it is set.
type slow struct {
	mainstem.Log
	takes atomic.Int64 // a time.Duration
}

// Commit implements [mainstem.Log].
func (l *slow) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	began := time.Now()
	if !backoff.Sleep(ctx, time.Duration(l.takes.Load())) {
		return mainstem.Receipt{}, mainstem.Ended(ctx, "commit", began, "the log")
	}
	return l.Log.Commit(ctx, b)
}

// The release of the lease may take the time of the caller, and a little more when that is over.
func TestSlowRelease(t *testing.T) {
	for _, c := range []struct {
		name        string
		takes, left time.Duration
		want        time.Duration // until release returns
		err         error
	}{
		{"within the time of the caller", leaveTimeout + 5*time.Second, leaveTimeout + 6*time.Second, leaveTimeout + 5*time.Second, nil},
		{"soon after it", 10 * time.Second, 9 * time.Second, 10 * time.Second, nil},
		{"soon after it had ended", leaveTimeout - 1, 0, leaveTimeout - 1, nil},
		{"never", time.Hour, 10 * time.Second, 10*time.Second + leaveTimeout, mainstem.ErrCanceled},
		{"never after it had ended", time.Hour, 0, leaveTimeout, mainstem.ErrCanceled},
	} {
		synctest.Test(t, func(t *testing.T) {
			log := &slow{Log: model.New(nil)}
			defer log.Close()
			k := New()
			k.Config.Lease = lease.MaxTTL
			k.host = &server.Host{Log: log, Logger: slog.New(slog.DiscardHandler)}
			var err error
			if k.lease, err = k.takeLease(t.Context()); err != nil {
				t.Fatal(err)
			}
			log.takes.Store(int64(c.takes))
			ctx, cancel := context.WithTimeout(t.Context(), c.left)
			defer cancel()
			began := time.Now()
			err = k.release(ctx)
			if took := time.Since(began); took != c.want || !errors.Is(err, c.err) {
				t.Errorf("%s: %v after %v, want %v after %v", c.name, err, took, c.err, c.want)
			}
		})
	}
}
