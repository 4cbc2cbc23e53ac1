package domains_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

type (
	createAccount struct{ command.Base }
	withdraw      struct{ command.Base }
	breakDown     struct{ command.Base }
	healthCheck   struct{ command.Base }
)

func (createAccount) CommandType() string { return "CreateAccount" }
func (withdraw) CommandType() string      { return "Withdraw" }
func (breakDown) CommandType() string     { return "BreakDown" }
func (healthCheck) CommandType() string   { return "HealthCheck" }

// The audit trail has a row for each command, including those that failed or panicked.
func TestAudit(t *testing.T) {
	log, poor := testengines.Memory(t), errors.New("insufficient funds")
	trail, err := command.OpenAudit(log, "bank")
	if err != nil {
		t.Fatal(err)
	}
	bus, err := command.Open(log, "bank", nil,
		command.Audit(command.AuditOptions{Log: trail, Skip: []string{"HealthCheck"}, WithMetadata: true}), command.Recovery())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := bus.Close(); err != nil {
			t.Error(err)
		}
	}()
	err = errors.Join(
		command.Handle(bus, func(context.Context, createAccount) (command.Result, error) {
			return command.Result{AggregateID: "7"}, nil
		}),
		command.Handle(bus, func(context.Context, withdraw) (command.Result, error) { return command.Result{}, poor }),
		command.Handle(bus, func(context.Context, breakDown) (command.Result, error) { panic("out of paper") }),
		command.Handle(bus, func(context.Context, healthCheck) (command.Result, error) { return command.Result{}, nil }),
	)
	if err != nil {
		t.Fatal(err)
	}
	ctx := command.WithActor(t.Context(), "user-42")
	base := command.Base{Metadata: map[string]string{"channel": "web"}}
	for _, cmd := range []command.Command{
		createAccount{base}, withdraw{base}, breakDown{base}, healthCheck{base},
	} {
		_, _ = bus.Dispatch(ctx, cmd) // the audit trail has the outcome
	}
	rows, err := trail.Find(ctx, command.AuditQuery{Actor: "user-42"})
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if r := rows[0]; !r.Success || r.CommandType != "CreateAccount" || r.AggregateID != "7" || r.Metadata["channel"] != "web" {
		t.Errorf("%+v", r)
	}
	if r := rows[1]; r.Success || r.Error != poor.Error() {
		t.Errorf("%+v", r)
	}
	failed := false
	if n, err := trail.Count(ctx, command.AuditQuery{Success: &failed}); n != 2 || err != nil {
		t.Errorf("%d failures, %v", n, err)
	}
}
