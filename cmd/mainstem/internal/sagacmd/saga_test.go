package sagacmd

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/clitest"
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
func (release) CommandType() string { return "Release" }

// fill lets three sagas run in a directory, of orders with these items: one waits, one is compensated, one has failed.
func fill(t *testing.T, dir, waits, compensated, failed string) {
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
			if strings.HasPrefix(ev.Item, "nothing") {
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
			if strings.HasPrefix(c.Item, "gold") {
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
	ends := map[string]saga.Status{waits: saga.Started, compensated: saga.Compensated, failed: saga.Failed}
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
	testkit.Eventually(t, "what was to be tried again is done", func() bool {
		o, err := e.Overview(t.Context(), "fulfilment")
		return err == nil && o.Commands == 0
	})
	if err := e.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestCommands(t *testing.T) {
	dir := t.TempDir() + "/data"
	if out, status := clitest.Run(t, New, "saga", "list", "--log", dir); status != 3 || !strings.Contains(out, "not found") {
		t.Errorf("without a log: %d, %s", status, out)
	}
	fill(t, dir, "tea", "gold", "nothing")
	const moment = `\d{4}-\d\d-\d\dT[\d:.]+Z`
	check := clitest.Checker(t, New, "saga", "--log", dir)
	check("list", 0, `^$`) // the store is another
	check("list --store shop", 0, `^fulfilment-gold\tcompensated\t`+moment+`\ttoo dear\nfulfilment-nothing\tfailed\t`+moment+`\tthere is nothing to do\nfulfilment-tea\tstarted\t`+moment+`\n$`)
	check("list fulfilment --store shop --status started --status failed", 0, `^fulfilment-tea\t.*\nfulfilment-nothing\t.*\n$`)
	check("list fulfil --store shop", 0, `^$`)
	check("list --store shop --limit 1 --json", 0, `^\{"store":"shop","saga":"fulfilment-gold","type":"fulfilment","key":"gold","status":"compensated","error":"too dear","refused":"fulfilment/gold/1","created":"`+moment+`","updated":"`+moment+`"\}\n$`)
	check("list --store shop --status half", 2, `"half" is no status`)
	check("show fulfilment-none --store shop", 3, `not found`)
	check("show fulfilment-gold --store shop", 0, `^saga +fulfilment-gold\nstatus +compensated\nerror +too dear\nrefused +fulfilment/gold/1\n(?s:.*)state +\{"Item":"gold"\}\ncompensation +Release \{"Order":"gold"\}, done\n`+
		`1\t`+moment+`\tSagaStarted\tstarted\tPlaced, version 1 of order-gold; sent Charge fulfilment/gold/1\n`+
		`2\t`+moment+`\tSagaRefused\tcompensating\tCharge fulfilment/gold/1; too dear; sent Release fulfilment/gold/2\n`+
		`3\t`+moment+`\tSagaCompensated\tcompensated\tRelease fulfilment/gold/2\n$`)
	check("show fulfilment-tea --store shop --json", 0, `"state":\{"Item":"tea"\},"timeouts":\{"late":"`+moment+`"\},"compensations":\[\{"type":"Release","data":\{"Order":"tea"\},"done":false\}\]\}\n`+
		`\{"saga":"fulfilment-tea","version":1,"time":"`+moment+`","step":"SagaStarted","status":"started","event_type":"Placed","stream":"order-tea","event_version":1,"sent":\[\{"id":"fulfilment/tea/1","type":"Charge"\}\]\}\n$`)
	check("retry fulfilment-tea --store shop", 4, `is started`)
	check("retry fulfilment-none --store shop", 3, `not found`)
	check("retry fulfilment-nothing --store shop", 0, `^fulfilment-nothing\trunning\n$`)
	check("retry fulfilment-gold --store shop --json", 0, `"saga":"fulfilment-gold",.*"status":"started"`)
	check("status", 0, `^$`) // the store is another
	check("status --store shop", 0, `^fulfilment\trunning\t3\t0\t2\t`+moment+`\n$`)
	check("status fulfilment --store shop --json", 0, `^\{"store":"shop","type":"fulfilment","paused":false,"running":3,`+
		`"statuses":\{"compensated":0,"compensating":0,"compensation_failed":0,"completed":0,"failed":0,"running":1,"started":2\},"position":\d+,"lag":0,"parked":0,"commands":2,"timeouts":1,"waiting_since":"`+moment+`"\}\n$`)
	check("status fulfilment --store shop", 0, `^type +fulfilment\nstate +running\nstarted +2\nrunning +1\n(?s:.*)lag +0\nparked +0\ncommands +2\ntimeouts +1\nwaiting since +`+moment+`\n$`)
	check("status none --store shop", 3, `no engine has started it yet`)
	check("pause none --store shop", 3, `not found`)
	check("pause fulfilment --store shop", 0, `^fulfilment\tpaused\t3\t`)
	check("status fulfilment --store shop", 0, `\nstate +paused\npaused since +`+moment+`\n`)
	check("pause fulfilment --store shop --json", 0, `"paused":true,"running":3,"paused_since":"`+moment+`"`)
	check("resume fulfilment --store shop", 0, `^fulfilment\trunning\t3\t`)
	check("remove fulfilment-tea --store shop", 4, `is started`)
	check("remove fulfilment-none --store shop", 3, `not found`)
	check("prune --store shop", 2, `--older-than is 0s`)
	check("prune --store shop --older-than 1h --status started", 1, `has not ended`)
	check("prune --store shop --older-than 1h --status half", 2, `"half" is no status`)
	fill(t, dir, "silver", "gold2", "nothing2")
	check = clitest.Checker(t, New, "saga", "--store", "shop", "--log", dir)
	check("prune --older-than 1h --status compensated --status failed", 0, `^$`)
	check("prune fulfilment --older-than 1ns --dry-run", 0, `^fulfilment-gold\tcompensated\t`+moment+`\twould be removed\nfulfilment-gold2\tcompensated\t`+moment+`\twould be removed\n$`)
	check("prune fulfilment --older-than 1ns --limit 1", 0, `^fulfilment-gold\tcompensated\t`+moment+`\tremoved\n$`)
	check("prune other --older-than 1ns", 0, `^$`)
	check("prune --older-than 1ns --json", 0, `^\{"store":"shop","saga":"fulfilment-gold2",.*"status":"compensated",.*"removed":true\}\n$`)
	check("prune --older-than 1ns", 0, `^$`)
	check("remove fulfilment-nothing2 --dry-run", 0, `^fulfilment-nothing2\tfailed\t`+moment+`\twould be removed\n$`)
	check("remove fulfilment-nothing2", 0, `^fulfilment-nothing2\tfailed\t`+moment+`\tremoved\n$`)
	check("remove fulfilment-nothing2", 3, `not found`)
	check("show fulfilment-nothing2", 3, `not found`)
	check("remove", 2, `0 arguments`)
}
