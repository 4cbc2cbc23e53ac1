package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// trail is the audit trail of a shop, whose bus must be made with it.
func withTrail(t testing.TB, o command.AuditOptions, middleware ...command.Middleware) (*shop, *command.AuditLog) {
	t.Helper()
	return withTrailOn(t, testengines.Memory(t), o, middleware...)
}

func withTrailOn(t testing.TB, on mainstem.Log, o command.AuditOptions, middleware ...command.Middleware) (*shop, *command.AuditLog) {
	t.Helper()
	log := &logUnderTest{Log: on}
	trail, err := command.OpenAudit(log, "shop")
	if err != nil {
		t.Fatal(err)
	}
	o.Log = trail
	return shopOn(t, log, append([]command.Middleware{command.Audit(o)}, middleware...)...), trail
}

func TestAudit(t *testing.T) { testengines.Each(t, testAudit) }

func testAudit(t *testing.T, log mainstem.Log) {
	s, trail := withTrailOn(t, log, command.AuditOptions{Skip: []string{"Named"}, WithMetadata: true},
		command.CorrelationID(func() string { return "corr" }), command.Idempotency(command.IdempotencyOptions{}))
	before := time.Now()
	ctx := event.WithMetadata(command.WithActor(t.Context(), "ann"), event.Metadata{TenantID: "acme"})
	base := command.Base{CommandID: "c1", CausationID: "b1", Metadata: map[string]string{"ip": "::1"}}
	for range 2 { // the second is a duplicate, and leaves no row
		if _, err := s.bus.Dispatch(ctx, place{ID: "1", Item: "book", Base: base}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.bus.Dispatch(ctx, &pay{Order: "none"}); err == nil {
		t.Fatal("paid for nothing")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.bus.Dispatch(ended, &pay{Order: "1"}); err == nil {
		t.Fatal("paid with a context that has ended")
	}
	rows, err := trail.Find(t.Context(), command.AuditQuery{})
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v: %+v", len(rows), err, rows)
	}
	r := rows[slices.IndexFunc(rows, func(r command.AuditRow) bool { return r.Success })]
	if r.CommandType != "Place" || r.CommandID != "c1" || r.AggregateID != "1" || r.Actor != "ann" || r.TenantID != "acme" || r.CorrelationID != "corr" ||
		r.CausationID != "b1" || r.Error != "" || r.Version != 1 || r.DurationMs <= 0 || r.Metadata["ip"] != "::1" || r.Time.Before(before) || r.Time.After(time.Now()) {
		t.Errorf("the row of the success is %+v", r)
	}
	failed := rows[slices.IndexFunc(rows, func(r command.AuditRow) bool { return !r.Success && r.Actor == "ann" })]
	if failed.CommandType != "Pay" || failed.Error == "" || failed.Version != 0 || failed.TenantID != "acme" {
		t.Errorf("the row of the failure is %+v", failed)
	}
}

// There is no success without its row, and no row of a command that was not written.
func TestAuditIsInTheCommit(t *testing.T) {
	s, trail := withTrail(t, command.AuditOptions{Logger: slog.New(slog.DiscardHandler)})
	down := &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.NotWritten}
	s.log.commit = func(context.Context, *mainstem.Batch) (mainstem.Receipt, error) { return mainstem.Receipt{}, down }
	if _, err := s.bus.Dispatch(t.Context(), place{ID: "1", Item: "book"}); err != error(down) { //nolint:errorlint // nothing may be joined
		t.Errorf("without FailClosed: %v", err)
	}
	if n, err := trail.Count(t.Context(), command.AuditQuery{}); n != 0 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	s, _ = withTrail(t, command.AuditOptions{FailClosed: true})
	s.log.commit = func(context.Context, *mainstem.Batch) (mainstem.Receipt, error) { return mainstem.Receipt{}, down }
	no := errors.New("no")
	if _, err := s.bus.Dispatch(t.Context(), place{ID: "1", Item: "book", Fail: no}); !errors.Is(err, no) || !errors.Is(err, down) {
		t.Errorf("with FailClosed: %v", err)
	}
	elsewhere, err := command.OpenAudit(testengines.Memory(t), "shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, trail := range []*command.AuditLog{nil, elsewhere} {
		s := newShop(t, command.Audit(command.AuditOptions{Log: trail}))
		if _, err := s.bus.Dispatch(t.Context(), place{ID: "1", Item: "book"}); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("a trail that is not in the log of the bus: %v", err)
		}
	}
	if err := second(command.OpenAudit(testengines.Memory(t), "a/b")); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a wrong name: %v", err)
	}
}

// A command whose handler panics or ends its goroutine leaves a row and a line of the log. The panic
// reaches Recovery with its value and the stack of the handler.
func TestAuditAndLoggingOfPanics(t *testing.T) {
	var lines bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&lines, nil))
	log := &logUnderTest{Log: testengines.Memory(t)}
	trail, err := command.OpenAudit(log, "shop")
	if err != nil {
		t.Fatal(err)
	}
	s := shopOn(t, log, command.Recovery(), command.Logging(logger), command.Audit(command.AuditOptions{Log: trail, FailClosed: true, Logger: logger}))
	if err := command.Handle(s.bus, func(context.Context, named) (command.Result, error) { runtime.Goexit(); panic("unreachable") }); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("boom")
	dispatch := func() {
		t.Helper()
		var p *command.PanicError
		_, err := s.bus.Dispatch(t.Context(), place{ID: "1", Item: "book", Panic: cause})
		if !errors.As(err, &p) || p.Value != any(cause) || !bytes.Contains(p.Stack, []byte("domain_test.go")) {
			t.Errorf("a panic: %#v", err)
		}
	}
	dispatch()
	if _, err := s.bus.DispatchAsync(t.Context(), named("")).Wait(t.Context()); err == nil {
		t.Error("a handler that ended its goroutine: no error")
	}
	rows, err := trail.Find(t.Context(), command.AuditQuery{})
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows, %v; want 2", len(rows), err)
	}
	for i, name := range []string{"Place", "Named"} {
		if r := rows[i]; r.CommandType != name || !strings.Contains(r.Error, "did not return") || r.Success {
			t.Errorf("row %d is %+v, want the failure of %s", i, r, name)
		}
		if n := strings.Count(lines.String(), fmt.Sprintf("level=ERROR msg=\"command failed\" command=%s duration=", name)); n != 1 {
			t.Errorf("%d lines of %s, want 1:\n%s", n, name, &lines)
		}
	}
	// A row that cannot be written is reported, although no error can be added to the panic.
	log.commit = func(context.Context, *mainstem.Batch) (mainstem.Receipt, error) {
		return mainstem.Receipt{}, mainstem.ErrUnavailable
	}
	dispatch()
	if !strings.Contains(lines.String(), "a failed command is not in the audit trail") {
		t.Errorf("no line of the missing row:\n%s", &lines)
	}
}

// Find, Count and Cleanup are compared with a list of all rows.
func TestAuditQueries(t *testing.T) {
	s, trail := withTrail(t, command.AuditOptions{})
	for i := range 60 {
		ctx := event.WithMetadata(t.Context(), event.Metadata{UserID: fmt.Sprint("user", i%3), TenantID: fmt.Sprint("t", i%2), CorrelationID: fmt.Sprint("c", i%5)})
		var cmd command.Command = place{ID: fmt.Sprint(i), Item: "book"}
		if i%4 == 0 {
			cmd = &pay{Order: "none"}
		}
		_, _ = s.bus.Dispatch(ctx, cmd)
	}
	all, err := trail.Find(t.Context(), command.AuditQuery{})
	if err != nil || len(all) != 60 {
		t.Fatal(len(all), err)
	}
	if !slices.IsSortedFunc(all, func(a, b command.AuditRow) int {
		return a.Time.Truncate(time.Millisecond).Compare(b.Time.Truncate(time.Millisecond))
	}) {
		t.Error("the rows are not ordered by time")
	}
	rapid.Check(t, func(rt *rapid.T) {
		pick := func(name string, values ...string) string {
			return rapid.SampledFrom(append(values, "", "")).Draw(rt, name)
		}
		moment := func(name string) time.Time {
			switch i := rapid.IntRange(-20, 61).Draw(rt, name); {
			case i < 0:
				return time.Time{}
			case i < len(all):
				return all[i].Time
			case i == len(all): // times that no ID can hold
				return time.Date(1, 2, 3, 0, 0, 0, 0, time.UTC)
			}
			return time.Date(10_900, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		q := command.AuditQuery{
			CommandType: pick("type", "Place", "Pay", "No"), Actor: pick("actor", "user0", "user1"), TenantID: pick("tenant", "t0", "t1"),
			AggregateID: pick("aggregate", "1", "2"), CorrelationID: pick("correlation", "c0", "c4"), From: moment("from"), To: moment("to"),
			Limit: rapid.IntRange(0, 9).Draw(rt, "limit"), Offset: rapid.IntRange(0, 9).Draw(rt, "offset"), Desc: rapid.Bool().Draw(rt, "desc"),
		}
		if rapid.Bool().Draw(rt, "by success") {
			ok := rapid.Bool().Draw(rt, "success")
			q.Success = &ok
		}
		got, err := trail.Find(t.Context(), q)
		n, err2 := trail.Count(t.Context(), q)
		if !q.From.IsZero() && !q.To.IsZero() && q.To.Before(q.From) {
			if !errors.Is(err, mainstem.ErrInvalid) || !errors.Is(err2, mainstem.ErrInvalid) {
				rt.Fatalf("an impossible time: %v, %v", err, err2)
			}
			return
		}
		if err := errors.Join(err, err2); err != nil {
			rt.Fatal(err)
		}
		var want []string
		for _, r := range all {
			if (q.CommandType == "" || q.CommandType == r.CommandType) && (q.Actor == "" || q.Actor == r.Actor) && (q.TenantID == "" || q.TenantID == r.TenantID) &&
				(q.AggregateID == "" || q.AggregateID == r.AggregateID) && (q.CorrelationID == "" || q.CorrelationID == r.CorrelationID) &&
				(q.From.IsZero() || !r.Time.Before(q.From)) && (q.To.IsZero() || r.Time.Before(q.To)) && (q.Success == nil || *q.Success == r.Success) {
				want = append(want, r.ID)
			}
		}
		if n != len(want) {
			rt.Fatalf("counted %d, want %d", n, len(want))
		}
		if q.Desc {
			slices.Reverse(want)
		}
		want = want[min(q.Offset, len(want)):]
		if q.Limit > 0 {
			want = want[:min(q.Limit, len(want))]
		}
		var ids []string
		for _, r := range got {
			ids = append(ids, r.ID)
		}
		if !slices.Equal(ids, want) {
			rt.Fatalf("found %v, want %v", ids, want)
		}
	})
	if n, err := trail.Cleanup(t.Context(), all[40].Time); err != nil {
		t.Error(n, err)
	}
	old := func(r command.AuditRow) bool { return r.Time.Before(all[40].Time) }
	left, err := trail.Find(t.Context(), command.AuditQuery{})
	if want := slices.DeleteFunc(slices.Clone(all), old); err != nil || len(left) != len(want) || slices.ContainsFunc(left, old) {
		t.Errorf("%d rows are left, %v; want %d", len(left), err, len(want))
	}
	if n, err := trail.Cleanup(t.Context(), time.Now().Add(time.Hour)); n != len(left) || err != nil {
		t.Errorf("removed %d of %d, %v", n, len(left), err)
	}
	if _, err := trail.Find(t.Context(), command.AuditQuery{Limit: -1}); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a limit below 0: %v", err)
	}
}
