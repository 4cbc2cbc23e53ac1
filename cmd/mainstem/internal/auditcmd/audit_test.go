package auditcmd

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/clitest"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pay is a command that may be refused.
type pay struct {
	command.Base
	Order string
	Wrong error
}

func (pay) CommandType() string   { return "Pay" }
func (p pay) AggregateID() string { return p.Order }

// fill leaves a trail in a directory: three commands, of which one was refused.
func fill(t *testing.T, dir string) {
	t.Helper()
	log, err := pebblelog.Open(dir, &pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	trail, err := command.OpenAudit(log, "shop")
	if err != nil {
		t.Fatal(err)
	}
	bus, err := command.Open(log, "shop", nil, command.Audit(command.AuditOptions{Log: trail, WithMetadata: true}))
	if err != nil {
		t.Fatal(err)
	}
	err = command.Handle(bus, func(_ context.Context, c pay) (command.Result, error) {
		return command.Result{AggregateID: c.Order, Version: 2}, c.Wrong
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := event.WithMetadata(t.Context(), event.Metadata{TenantID: "t1", Custom: map[string]string{"source": "web"}})
	for _, c := range []struct {
		actor string
		cmd   pay
	}{{"ada", pay{Order: "1"}}, {"ada", pay{Order: "2", Wrong: errors.New("no money")}}, {"bob", pay{Base: command.Base{CommandID: "c3", CorrelationID: "k"}, Order: "1"}}} {
		if _, err := bus.Dispatch(command.WithActor(ctx, c.actor), c.cmd); !errors.Is(err, c.cmd.Wrong) {
			t.Fatal(err)
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir)
	const moment = `\d{4}-\d\d-\d\dT[\d:.]+Z`
	check := clitest.Checker(t, New, "audit", "find", "--log", dir)
	check("shop", 0, `^`+moment+`\tPay\t1\tada\t\d+\.\d{3}\tok\n`+moment+`\tPay\t2\tada\t\d+\.\d{3}\tno money\n`+moment+`\tPay\t1\tbob\t\d+\.\d{3}\tok\n$`)
	check("shop --actor ada --succeeded", 0, `^.*\tPay\t1\tada\t.*\n$`)
	check("shop --aggregate 1 --limit 1 --offset 1", 0, `^.*\tbob\t.*\n$`)
	check("shop --type Pay --tenant t1 --from 1h --to 2999-01-01 --failed --json", 0,
		`^\{"trail":"shop","id":"[0-9a-f-]{36}","time":"`+moment+`","command_type":"Pay","success":false,"error":"no money","aggregate_id":"2","actor":"ada","tenant_id":"t1","duration_ms":[\d.e-]+,"metadata":\{"source":"web"\}\}\n$`)
	check("shop --correlation k --json", 0, `"command_id":"c3","aggregate_id":"1","version":2,.*"correlation_id":"k"`)
	check("shop --count", 0, `^3\n$`)
	check("shop --failed --count --json", 0, `^\{"trail":"shop","rows":1\}\n$`)
	check("shop --desc --limit 1", 0, `^.*\tbob\t.*\n$`)
	check("shop --to 1h", 0, `^$`)
	check("shop --to 2999-01-01T00:00:00Z --type Other", 0, `^$`)
	check("other", 0, `^$`)
	check("shop --succeeded --failed", 2, `exclude each other`)
	check("shop --from yesterday", 2, `--from is "yesterday": want a time`)
	check("shop --limit -1", 1, `want 0 or more`)
	check("", 2, `0 arguments`)
}

func TestParseTime(t *testing.T) {
	now := time.Date(2030, 5, 6, 7, 8, 9, 0, time.UTC)
	for in, want := range map[string]time.Time{
		"": {}, "15m": now.Add(-15 * time.Minute), "0s": now, "2029-01-02": time.Date(2029, 1, 2, 0, 0, 0, 0, time.UTC), "2029-01-02T03:04:05.5+01:00": time.Date(2029, 1, 2, 2, 4, 5, 5e8, time.UTC),
	} {
		if got, err := parseTime("from", in, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"-5m", "now", "2029-13-01"} {
		if got, err := parseTime("from", in, now); err == nil {
			t.Errorf("%q is %v", in, got)
		}
	}
}
