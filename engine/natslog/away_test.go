package natslog_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testnats"
)

// probe commits a batch that writes nothing, as a readiness check does.
func probe(t *testing.T, log mainstem.Log, patience time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := log.Commit(ctx, mainstem.NewBatch())
	return err
}

// TestServerAway stops the server and starts it again after the log has noticed. Who asks
// whether the log takes commits is answered when its patience ends, and not when that of
// the log does. That the stream cannot be read is logged once, however often it is tried.
// A server that is back before the log notices is no failure, and logged by the connection.
func TestServerAway(t *testing.T) {
	s := testnats.NewServer(t, nil)
	var out testkit.Lines
	log := open(t, s.URL(), natslog.Options{Timeout: time.Hour, Logger: out.Logger()})
	mustCommit(t, log, one("", "a"))
	logged := func(line string, times int) func() error {
		return func() error {
			if n := out.Count(line); n != times {
				return fmt.Errorf("logged %d times", n)
			}
			return nil
		}
	}
	const failed, back = "the stream cannot be read", "the stream can be read again"
	for away := range 2 {
		s.Stop()
		testkit.Succeeds(t, "the stream cannot be read", logged(failed, away+1))
		for range 5 {
			if err := probe(t, log, 300*time.Millisecond); mainstem.KindOf(err) != mainstem.KindCanceled {
				t.Fatalf("a probe without a server: %v", err)
			}
		}
		s.Start()
		testkit.Succeeds(t, "the log takes commits", func() error { return probe(t, log, 5*time.Second) })
		mustCommit(t, log, one("", "b"))
		testkit.Succeeds(t, "the stream is read", logged(back, away+1))
		if err := logged(failed, away+1)(); err != nil {
			t.Fatalf("the stream cannot be read: %v:\n%s", err, out.String())
		}
	}
}

// TestSilentConnection loses everything on a connection that stays open. Another one is
// made soon.
func TestSilentConnection(t *testing.T) {
	p := newProxy(t, testnats.NewServer(t, nil).URL())
	log := open(t, p.url(), natslog.Options{Timeout: time.Hour, Connect: []nats.Option{nats.IgnoreDiscoveredServers()}})
	mustCommit(t, log, one("", "a"))
	p.cut()
	testkit.Succeeds(t, "the log takes commits", func() error { return probe(t, log, 5*time.Second) })
}
