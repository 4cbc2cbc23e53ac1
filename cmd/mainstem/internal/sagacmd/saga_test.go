package sagacmd

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/event/saga"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	placed  struct{ Item string }
	charge  struct{ Order, Item string }
	release struct{ Order string }
	cart    struct{ Item string }
)

func (charge) CommandType() string  { return "Charge" }
func (charge) Validate() error      { return nil }
func (release) CommandType() string { return "Release" }
func (release) Validate() error     { return nil }

// fill lets three sagas run in a directory: one waits, one is compensated, one has failed.
func fill(t *testing.T, dir string) {
	t.Helper()
	log, err := pebblelog.Open(dir, &pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	types := event.NewTypes(nil)
	store, err := event.Open(log, "shop", nil)
	bus, berr := command.Open(log, "shop", nil)
	def, derr := saga.New[cart]("fulfilment",
		saga.StartOn(saga.StreamKey[placed], func(c *saga.Context[cart], ev placed) error {
			c.State.Item = ev.Item
			if ev.Item == "nothing" {
				c.Fail(errors.New("there is nothing to do"))
				return nil
			}
			c.Compensate(release{c.Key()})
			c.Dispatch(charge{c.Key(), ev.Item})
			c.Timeout("late", 1000*time.Hour)
			return nil
		}),
		saga.OnTimeout("late", func(*saga.Context[cart]) error { return nil }),
		saga.Sends[charge](), saga.Sends[release]())
	err = errors.Join(err, berr, derr, event.Register[placed](types, "Placed"),
		command.Handle(bus, func(_ context.Context, c charge) (r command.Result, err error) {
			if c.Item == "gold" {
				err = errors.New("too dear")
			}
			return r, err
		}),
		command.Handle(bus, func(context.Context, release) (r command.Result, err error) { return r, err }))
	if err != nil {
		t.Fatal(err)
	}
	e, err := saga.Open(store, types, bus, &saga.Options{Logger: slog.New(slog.DiscardHandler)})
	if err = errors.Join(err, e.Register(def, nil), e.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	ends := map[string]saga.Status{"tea": saga.Started, "gold": saga.Compensated, "nothing": saga.Failed}
	for item, end := range ends {
		ev, err := types.Encode(placed{item})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Append(t.Context(), "order-"+item, event.NoStream, []event.Event{ev}); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "the saga ends", func() bool {
			i, err := e.Get(t.Context(), saga.ID("fulfilment", item))
			return err == nil && i.Status == end
		})
	}
	if err := e.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// run runs a command line and returns what it printed, to either, and its exit status.
func run(t *testing.T, dir string, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	m := &cli.Main{Stdout: &out, Stderr: &out, Stdin: strings.NewReader("")}
	status := m.Run(t.Context(), m.Root([]*cobra.Command{New(m)}, nil), append(args, "--log", dir))
	return out.String(), status
}

func TestCommands(t *testing.T) {
	dir := t.TempDir() + "/data"
	if out, status := run(t, dir, "saga", "list"); status != 3 || !strings.Contains(out, "not found") {
		t.Errorf("without a log: %d, %s", status, out)
	}
	fill(t, dir)
	const moment = `\d{4}-\d\d-\d\dT[\d:.]+Z`
	for _, c := range []struct {
		args   string
		status int
		want   string // a regular expression
	}{
		{"list", 0, `^$`}, // the store is another
		{"list --store shop", 0, `^fulfilment-gold\tcompensated\t` + moment + `\ttoo dear\nfulfilment-nothing\tfailed\t` + moment + `\tthere is nothing to do\nfulfilment-tea\tstarted\t` + moment + `\n$`},
		{"list fulfilment --store shop --status started --status failed", 0, `^fulfilment-tea\t.*\nfulfilment-nothing\t.*\n$`},
		{"list fulfil --store shop", 0, `^$`},
		{"list --store shop --limit 1 --json", 0, `^\{"store":"shop","saga":"fulfilment-gold","type":"fulfilment","key":"gold","status":"compensated","error":"too dear","refused":"fulfilment/gold/1","created":"` + moment + `","updated":"` + moment + `"\}\n$`},
		{"list --store shop --status half", 2, `"half" is no status`},
		{"show fulfilment-none --store shop", 3, `not found`},
		{"show fulfilment-gold --store shop", 0, `^saga +fulfilment-gold\nstatus +compensated\nerror +too dear\nrefused +fulfilment/gold/1\n(?s:.*)state +\{"Item":"gold"\}\ncompensation +Release \{"Order":"gold"\}, done\n` +
			`1\t` + moment + `\tSagaStarted\tstarted\tPlaced, version 1 of order-gold; sent Charge fulfilment/gold/1\n` +
			`2\t` + moment + `\tSagaRefused\tcompensating\tCharge fulfilment/gold/1; too dear; sent Release fulfilment/gold/2\n` +
			`3\t` + moment + `\tSagaCompensated\tcompensated\tRelease fulfilment/gold/2\n$`},
		{"show fulfilment-tea --store shop --json", 0, `"state":\{"Item":"tea"\},"timeouts":\{"late":"` + moment + `"\},"compensations":\[\{"type":"Release","data":\{"Order":"tea"\},"done":false\}\]\}\n` +
			`\{"saga":"fulfilment-tea","version":1,"time":"` + moment + `","step":"SagaStarted","status":"started","event_type":"Placed","stream":"order-tea","event_version":1,"sent":\[\{"id":"fulfilment/tea/1","type":"Charge"\}\]\}\n$`},
		{"retry fulfilment-tea --store shop", 4, `is started`},
		{"retry fulfilment-none --store shop", 3, `not found`},
		{"retry fulfilment-nothing --store shop", 0, `^fulfilment-nothing\trunning\n$`},
		{"retry fulfilment-gold --store shop --json", 0, `"saga":"fulfilment-gold",.*"status":"started"`},
	} {
		out, status := run(t, dir, append([]string{"saga"}, strings.Fields(c.args)...)...)
		if status != c.status || !regexp.MustCompile(c.want).MatchString(out) {
			t.Errorf("mainstem saga %s: exit status %d, want %d:\n%swant %s", c.args, status, c.status, out, c.want)
		}
	}
}
