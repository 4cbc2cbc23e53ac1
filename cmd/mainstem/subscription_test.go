package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/server"
)

// mailer is a program with a subscription that counts the events it handles, and fails at the
// type Bad.
type mailer struct {
	t       *testing.T
	n       *server.Server
	store   *event.Store
	sub     *event.Subscription
	handled atomic.Int64
}

func startMailer(t *testing.T, o *event.SubscribeOptions) *mailer {
	t.Helper()
	m := &mailer{t: t, n: startNode(t)}
	var err error
	if m.store, err = event.Open(m.n.Log(), "shop", nil); err != nil {
		t.Fatal(err)
	}
	m.start(o)
	t.Cleanup(func() { _ = m.sub.Close() }) // what it ended with is the test's business
	return m
}

func (m *mailer) start(o *event.SubscribeOptions) {
	m.t.Helper()
	o.Logger, o.Attempts = slog.New(slog.DiscardHandler), 1
	var err error
	m.sub, err = m.store.Subscribe(m.t.Context(), "mailer", o, func(_ context.Context, _ *mainstem.Batch, ev event.Recorded) error {
		if ev.Type == "Bad" {
			return errors.New("as asked")
		}
		m.handled.Add(1)
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *mailer) append(stream string, types ...string) mainstem.Position {
	m.t.Helper()
	var evs []event.Event
	for _, typ := range types {
		evs = append(evs, event.Event{Type: typ})
	}
	w, err := m.store.Append(m.t.Context(), stream, event.AnyVersion, evs)
	if err != nil {
		m.t.Fatal(err)
	}
	return w.LastPosition
}

// run runs mainstem event subscription, and wants a status and a text that matches.
func (m *mailer) run(status int, want string, line ...string) {
	m.t.Helper()
	r := run(m.t.Context(), nil, append([]string{"event", "subscription", "--store", "shop", "--log", m.n.URL()}, line...)...)
	if r.status != status || !regexp.MustCompile(want).MatchString(r.out+r.errors) {
		m.t.Errorf("%s: status %d, %q; want %d, %s", strings.Join(line, " "), r.status, r.out+r.errors, status, want)
	}
}

func (m *mailer) wantHandled(n int64) {
	m.t.Helper()
	testkit.Eventually(m.t, fmt.Sprintf("%d events are handled", n), func() bool { return m.handled.Load() == n })
}

func TestSubscriptionThatRunsIsReset(t *testing.T) {
	m := startMailer(t, &event.SubscribeOptions{Filter: event.Filter{Category: "order"}, OnPoison: event.ParkPoison})
	first := m.append("order-1", "A")
	m.append("user-1", "A")
	last := m.append("order-1", "Bad", "A", "A")
	m.wantHandled(3)
	testkit.Eventually(t, "the last is committed", func() bool { return m.sub.Position() >= last })
	m.run(cli.ExitOK, fmt.Sprintf(`^mailer\tcheckpoint\t%d\t0\t1\n$`, m.sub.Position()), "list")
	m.run(cli.ExitOK, `"kind":"checkpoint",.*"lag":0,"parked":1,"updated":"20.*","owner":".* pid \d+ #\d+"\}`, "lag", "mailer", "--json")
	m.run(cli.ExitOK, `\torder-1\t2\t1\tas asked\n`, "parked", "mailer")

	m.run(cli.ExitOK, `from position \d+ to \d+: 3 events handled again`, "reset", "mailer", "--after", fmt.Sprint(first), "--dry-run")
	m.run(cli.ExitOK, `"events":3,"reset":true`, "reset", "mailer", "--after", fmt.Sprint(first), "--yes", "--json")
	m.append("order-1", "A") // its commit finds that the checkpoint has moved
	m.wantHandled(3 + 1 + 3) // the new one, whose commit is refused, and all since the first but the bad one
	m.run(cli.ExitOK, `\torder-1\t2\t1\tas asked\n$`, "parked", "mailer")
	m.run(cli.ExitFailed, `unsupported: the handler of subscription mailer is in a program`, "retry", "mailer")
	m.run(cli.ExitOK, `dropped 1 parked event\n`, "skip", "mailer", "--parked", "--yes")
	m.run(cli.ExitOK, `^$`, "parked", "mailer")
}

func TestSubscriptionThatIsStuckPassesOverAnEvent(t *testing.T) {
	m := startMailer(t, &event.SubscribeOptions{})
	m.append("order-1", "A", "Bad", "A")
	<-m.sub.Done() // poison stops it
	m.run(cli.ExitOK, `^would park version 2 of order-1 at position \d+ of subscription mailer`, "skip", "mailer", "--dry-run")
	m.run(cli.ExitOK, `"version":2,"attempts":0,"reason":"it is bad","skipped":true`, "skip", "mailer", "--reason", "it is bad", "--yes", "--json")
	m.start(&event.SubscribeOptions{})
	m.wantHandled(2)
	m.run(cli.ExitOK, `\torder-1\t2\t0\tit is bad\n`, "parked", "mailer")
	testkit.Eventually(t, "the last is committed", func() bool {
		lag, err := m.sub.Lag(t.Context())
		return err == nil && lag == 0
	})
	m.run(cli.ExitNotFound, `has no event to pass over: all are handled`, "skip", "mailer", "--yes")
}

// TestSubscriptionsOfProjectionsAndSagas are shown, and changed by other commands.
func TestSubscriptionsOfProjectionsAndSagas(t *testing.T) {
	c := startCashier(t)
	m := &mailer{t: t, n: c.n, store: c.store}
	if err := c.store.SetCheckpoint(t.Context(), "saga/fulfil", 0); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "both partitions of the projection have a checkpoint", func() bool {
		_, err0 := c.store.Checkpoint(t.Context(), "sums#0")
		_, err1 := c.store.Checkpoint(t.Context(), "sums#1")
		return err0 == nil && err1 == nil
	})
	m.run(cli.ExitOK, `(?m)^saga/fulfil\tsaga\t0\t0\t0$`, "list")
	m.run(cli.ExitOK, `(?m)^sums#1\tprojection\t0\t0\t0$`, "list")
	m.run(cli.ExitFailed, `unsupported: subscription sums#0 belongs to the projection sums.*mainstem projection rebuild`, "reset", "sums#0", "--to-start", "--yes")
	m.run(cli.ExitFailed, `belongs to the projection sums.*mainstem projection skip`, "skip", "sums#0", "--yes")
	m.run(cli.ExitFailed, `belongs to sagas`, "reset", "saga/fulfil", "--to-start", "--yes")
}
