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
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/server"
)

type paid struct {
	Customer string
	Cents    int
}

// cashier is a program that runs a projection in the log of a server.
type cashier struct {
	t      *testing.T
	n      *server.Server
	store  *event.Store
	types  *event.Types
	sums   *readmodel.Alias[paid]
	engine *projection.Engine
	bad    atomic.Bool // it fails at what "bad" has paid
}

func startCashier(t *testing.T) *cashier {
	t.Helper()
	c := &cashier{t: t, n: startNode(t), types: event.NewTypes(nil)}
	c.bad.Store(true)
	err := event.Register[paid](c.types, "Paid")
	var errs [4]error
	c.store, errs[0] = event.Open(c.n.Log(), "shop", nil)
	c.sums, errs[1] = readmodel.OpenAlias(c.n.Log(), "shop/sums", &readmodel.Options[paid]{Key: func(p paid) string { return p.Customer }})
	p, perr := projection.New("sums", 1, event.Filter{Category: "order"}, projection.On(c.add))
	c.engine, errs[2] = projection.Open(c.store, c.types, &projection.Options{Logger: slog.New(slog.DiscardHandler), RestartAfter: -1})
	if err := errors.Join(err, perr, errs[0], errs[1], errs[2]); err != nil {
		t.Fatal(err)
	}
	err = c.engine.Register(p.WithTables(c.sums), &projection.Async{Attempts: 1, Partitions: 2})
	if err := errors.Join(err, c.engine.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.engine.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *cashier) add(ctx context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
	if ev.Customer == "bad" && c.bad.Load() {
		return errors.New("as asked")
	}
	return projection.Modify(ctx, tx, c.sums, ev.Customer, func(old paid, _ bool) (paid, error) {
		return paid{ev.Customer, old.Cents + ev.Cents}, nil
	})
}

// pay appends an event and returns its position.
func (c *cashier) pay(stream, customer string) mainstem.Position {
	c.t.Helper()
	ev, err := c.types.Encode(paid{customer, 1})
	if err != nil {
		c.t.Fatal(err)
	}
	a, err := c.store.Append(c.t.Context(), stream, event.AnyVersion, []event.Event{ev})
	if err != nil {
		c.t.Fatal(err)
	}
	return a.LastPosition
}

// sum waits until a customer has paid so much.
func (c *cashier) sum(customer string, cents int) {
	c.t.Helper()
	testkit.Eventually(c.t, fmt.Sprintf("%s to have paid %d", customer, cents), func() bool {
		p, err := c.sums.Get(c.t.Context(), customer)
		return err == nil && p.Cents == cents
	})
}

// rows returns the rows of a table as text.
func (c *cashier) rows(name string) string {
	c.t.Helper()
	table, err := readmodel.OpenAs(c.sums, name)
	if err != nil {
		c.t.Fatal(err)
	}
	rows, err := table.Find(c.t.Context(), readmodel.All())
	if err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprint(rows)
}

// run runs mainstem projection on the server, and compares what it prints.
func (c *cashier) run(status int, out string, line ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	r := run(ctx, nil, append([]string{"projection", "--store", "shop", "--log", c.n.URL()}, line...)...)
	if r.status != status || !regexp.MustCompile(out).MatchString(r.out) {
		c.t.Errorf("mainstem projection %s: status %d, %s%s: want %d, %s", strings.Join(line, " "), r.status, r.out, r.errors, status, out)
	}
}

// The commands see and change a projection that another process runs.
func TestProjectionCommands(t *testing.T) {
	c := startCashier(t)
	var fourth mainstem.Position
	for i := range 10 {
		if p := c.pay(fmt.Sprint("order-", i), "ann"); i == 3 {
			fourth = p
		}
	}
	c.sum("ann", 10)
	c.run(cli.ExitOK, `^sums\tcaught_up\t\d+\t0\n$`, "list")
	c.run(cli.ExitOK, `^\{"store":"shop","projection":"sums","version":1,"state":"caught_up","position":\d+,"lag":0,"behind":0,"parked":0,"partitions":2\}\n$`, "list", "--json")
	c.run(cli.ExitNotFound, `^$`, "status", "nothing")
	c.run(cli.ExitNotFound, `^$`, "pause", "nothing")
	c.run(cli.ExitUsage, `^$`, "pause")

	c.run(cli.ExitOK, `^sums\tpaused\n$`, "pause", "sums")
	c.pay("order-1", "ann")
	c.run(cli.ExitOK, `(?s)state +paused\n.*lag +1\n.*sums#0\t\d+\t.*sums#1\t\d+\t`, "status", "sums")
	c.run(cli.ExitOK, `^\{"store":"shop","projection":"sums","resumed":true\}\n$`, "resume", "sums", "--json")
	c.sum("ann", 11)

	// A fault, and going on after it.
	c.run(cli.ExitNotFound, `^$`, "skip", "sums")
	c.pay("order-7", "bad")
	c.pay("order-7", "ann")
	testkit.Eventually(t, "the projection to be faulted", func() bool {
		s, err := c.engine.Status(t.Context(), "sums")
		return err == nil && s.State == projection.Faulted
	})
	c.run(cli.ExitOK, `^sums\tfaulted\t\d+\t2\n$`, "list")
	c.run(cli.ExitOK, `(?m)^\{"subscription":"sums#[01]","position":\d+,"owner":"[^"]+","error":".*as asked"\}$`, "status", "sums", "--json")
	c.run(cli.ExitOK, `^sums#[01]\t\d+\torder-7\t\d+\t.*as asked\nnothing was changed: skip --yes would put aside what is shown\n$`, "skip", "sums")
	c.run(cli.ExitOK, `"stream":"order-7",.*"skipped":true\}\n$`, "skip", "sums", "--yes", "--json")
	c.sum("ann", 12)
	c.run(cli.ExitOK, `(?s)state +caught_up\n.*parked +1\n`, "status", "sums")

	// New tables, which count what was put aside too.
	c.bad.Store(false)
	c.run(cli.ExitOK, `^sums\trebuilt\n$`, "rebuild", "sums", "--keep-old", "1ms")
	c.sum("bad", 1)
	c.sum("ann", 12)
	c.run(cli.ExitOK, `^nothing was changed: rebuild --yes would remove what was computed up to position \d+\n$`, "rebuild", "sums", "--in-place")
	c.run(cli.ExitOK, `^sums\trequested\n$`, "rebuild", "sums", "--in-place", "--yes", "--no-wait")
	c.run(cli.ExitFailed, `^$`, "rebuild", "sums", "--to", "99999999")
	c.pay("order-1", "ann")
	c.sum("ann", 13)
	c.sum("bad", 1)

	// The table as it was, beside the one that is read.
	then := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	c.run(cli.ExitOK, `^sums\treplayed\n$`, "replay", "sums", "--until", then, "--into", "shop/then")
	c.run(cli.ExitOK, `^\{"store":"shop","projection":"sums","replayed":true\}\n$`, "replay", "sums", "--until", fmt.Sprint(fourth), "--into", "shop/sums=shop/four", "--json")
	if got := c.rows("shop/then"); got != "[{ann 13} {bad 1}]" {
		t.Errorf("the replay up to now has %s", got)
	}
	if got := c.rows("shop/four"); got != "[{ann 4}]" {
		t.Errorf("the replay up to the fourth payment has %s", got)
	}
	c.run(cli.ExitFailed, `^$`, "replay", "sums", "--until", "2000-01-01T00:00:00Z", "--into", "shop/none")
	c.run(cli.ExitUsage, `^$`, "replay", "sums")
	c.run(cli.ExitUsage, `^$`, "replay", "sums", "--into", "a/b", "--into", "c/d")
	c.run(cli.ExitUsage, `^$`, "replay", "sums", "--cancel", "--until", "4")
	c.bad.Store(true)
	c.run(cli.ExitFailed, `^$`, "replay", "sums", "--into", "shop/bad")
	c.run(cli.ExitOK, `(?m)^replay +at \d+ of \d+, into shop/sums=shop/bad\n +.*as asked$`, "status", "sums")
	c.run(cli.ExitOK, `"replay_into":\{"shop/sums":"shop/bad"\},"replay_position":\d+,"replay_until":\d+,"replay_error":".*as asked"`, "status", "sums", "--json")
	c.run(cli.ExitOK, `^sums\tcancelled\n$`, "replay", "sums", "--cancel")
	c.run(cli.ExitOK, `^sums\trequested\n$`, "replay", "sums", "--into", "shop/more", "--no-wait")
	c.bad.Store(false)

	// An inline projection is shown, and refused, whatever the flags: only its program has its handlers.
	inline, err := projection.New("till", 1, event.Filter{Category: "order"}, projection.On(func(context.Context, *projection.Tx, paid, event.Recorded) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := projection.OpenInline(t.Context(), c.store, c.types, nil, inline); err != nil {
		t.Fatal(err)
	}
	c.run(cli.ExitOK, `(?m)^till\trunning\t\d+\t0$`, "list")
	c.run(cli.ExitFailed, `^$`, "rebuild", "till")
	c.run(cli.ExitFailed, `^$`, "rebuild", "till", "--in-place")
	c.run(cli.ExitFailed, `^$`, "replay", "till", "--into", "shop/x")
}
