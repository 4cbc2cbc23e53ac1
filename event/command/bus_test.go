package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/event/command"
	"github.com/mainstemdev/mainstem/internal/crashtest"
)

func TestDispatch(t *testing.T) { onEach(t, testDispatch) }

func testDispatch(t *testing.T, s *shop) {
	r := s.dispatch(place{ID: "1", Item: "book"})
	evs := s.events("1")
	if r.AggregateID != "1" || r.Version != 1 || r.Duplicate || len(evs) != 1 || r.Position < evs[0].Position || s.sold("book") != 1 {
		t.Fatalf("placed: %+v, events %v, sold %d", r, evs, s.sold("book"))
	}
	if n := s.log.commits.Load(); n != 1 {
		t.Errorf("it took %d commits", n)
	}
	if r := s.dispatch(&pay{Order: "1"}); r.Version != 2 || r.Position <= evs[0].Position {
		t.Errorf("paid: %+v", r)
	}
	if r := s.dispatch(&place{ID: "2", Item: "book"}); r.AggregateID != "2" || s.sold("book") != 2 {
		t.Errorf("a pointer to a command of a value type: %+v", r)
	}
	if r := s.dispatch(place{Item: "pen"}); r.AggregateID == "" || len(s.events(r.AggregateID)) != 1 {
		t.Errorf("an empty ID became %+v", r)
	}
	no := errors.New("no")
	for what, cmd := range map[string]command.Command{"late error": place{ID: "3", Item: "cup", Fail: no}, "twice": place{ID: "1", Item: "cup"}} {
		if r, err := s.bus.Dispatch(t.Context(), cmd); err == nil || r != (command.Result{}) || s.sold("cup") != 0 || len(s.events("3")) != 0 {
			t.Errorf("%s: %+v, %v; sold %d", what, r, err, s.sold("cup"))
		}
	}
}

type named string

func (n named) CommandType() string { return "Named" }

type nameless struct{}

func (nameless) CommandType() string { return "" }

// impostor has the type of another command.
type impostor struct{ named }

type (
	byPointer  struct{ named }
	otherForm  struct{ named }
	keyPointer struct{ named }
)

func (*byPointer) Validate() error         { return nil }
func (otherForm) Validate() string         { return "" }
func (*keyPointer) IdempotencyKey() string { return "k" }

// handled registers a handler of C that does nothing.
func handled[C command.Command](b *command.Bus) error {
	return command.Handle(b, func(context.Context, C) (command.Result, error) { return command.Result{}, nil })
}

// A command needs no Validate, but a Validate that no middleware would call is refused.
func TestValidateIsOptional(t *testing.T) {
	bus, err := command.Open(newShop(t).log, "plain", nil, command.Validation())
	if err == nil {
		err = handled[named](bus)
	}
	if err == nil {
		_, err = bus.Dispatch(t.Context(), named("x"))
	}
	if err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"Validate of a pointer":       handled[byPointer](bus),
		"Validate of another form":    handled[otherForm](bus),
		"IdempotencyKey of a pointer": handled[keyPointer](bus),
	} {
		if !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), "want func (command_test.") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := handled[*otherForm](bus); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a pointer to a type with another form: %v", err)
	}
}

func TestRegistration(t *testing.T) {
	s := newShop(t)
	var missing *command.HandlerNotFoundError
	if _, err := s.bus.Dispatch(t.Context(), named("x")); !errors.As(err, &missing) || missing.Type != "Named" || !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("no handler: %v", err)
	}
	handle := func(context.Context, named) (command.Result, error) { return command.Result{}, nil }
	if err := command.Handle(s.bus, handle); err != nil {
		t.Fatal(err)
	}
	if err := command.Handle(s.bus, handle); !errors.Is(err, mainstem.ErrExists) {
		t.Errorf("a second handler: %v", err)
	}
	if got := strings.Join(s.bus.Types(), " "); got != "Named Pay Place" {
		t.Errorf("the types are %s", got)
	}
	_, ofAnother := s.bus.Dispatch(t.Context(), impostor{})
	_, null := s.bus.Dispatch(t.Context(), nil)
	for what, err := range map[string]error{
		"another Go type":     ofAnother,
		"nil":                 null,
		"no name":             command.Handle(s.bus, func(context.Context, nameless) (command.Result, error) { return command.Result{}, nil }),
		"an interface":        command.Handle(s.bus, func(context.Context, command.Command) (command.Result, error) { return command.Result{}, nil }),
		"nil handler":         command.Handle[named](s.bus, nil),
		"nil function":        command.HandleAggregate[place](s.bus, s.orders, nil),
		"another log":         command.HandleAggregate(s.bus, newShop(t).orders, func(context.Context, *Order, place) error { return nil }),
		"nil log":             second(command.Open(nil, "x", nil)),
		"no bus name":         second(command.Open(s.log, "", nil)),
		"wrong bus name":      second(command.Open(s.log, "a/b", nil)),
		"nil middleware":      second(command.Open(s.log, "x", nil, nil)),
		"outside of dispatch": second(s.log.Commit(t.Context(), command.Batch(t.Context()))),
	} {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v, want Invalid", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A commit that fails writes nothing; one of unknown outcome is repeated.
func TestCommitsThatFail(t *testing.T) {
	onEach(t, testCommitsThatFail, command.Idempotency(command.IdempotencyOptions{}))
}

func testCommitsThatFail(t *testing.T, s *shop) {
	down := &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.NotWritten}
	s.log.commit = func(context.Context, *mainstem.Batch) (mainstem.Receipt, error) { return mainstem.Receipt{}, down }
	if _, err := s.bus.Dispatch(t.Context(), place{ID: "1", Item: "book", Key: "k"}); !errors.Is(err, down) {
		t.Fatal(err)
	}
	if len(s.events("1")) != 0 || s.sold("book") != 0 {
		t.Error("a part was written")
	}
	tries := 0
	s.log.commit = func(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
		if tries++; tries < 4 {
			if tries == 2 {
				if _, err := s.log.Log.Commit(ctx, b); err != nil {
					return mainstem.Receipt{}, err
				}
			}
			return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.Unknown}
		}
		return s.log.Log.Commit(ctx, b)
	}
	if r := s.dispatch(place{ID: "1", Item: "book", Key: "k"}); r.Version != 1 || r.Duplicate || tries != 4 || s.sold("book") != 1 {
		t.Errorf("after unknown outcomes: %+v, %d tries, sold %d", r, tries, s.sold("book"))
	}
}

// TestDirectoryThatFails has a dispatch return after a failed write, though its context never ends:
// the log takes no more commits, so trying again tells nothing.
func TestDirectoryThatFails(t *testing.T) {
	var down atomic.Bool
	fault := &crashtest.Fault{At: 1, Permanent: true, Err: syscall.EIO, Only: func(op errorfs.Op) bool {
		return down.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite
	}}
	log, err := pebblelog.Open("/log", &pebblelog.Options{FS: fault.Wrap(vfs.NewMem()), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		fault.Heal()
		_ = log.Close() // it has failed
	}()
	s := shopOn(t, &logUnderTest{Log: log}, command.Idempotency(command.IdempotencyOptions{}))
	s.dispatch(place{ID: "1", Item: "book", Key: "a"})
	down.Store(true)
	if _, err := s.bus.Dispatch(context.Background(), place{ID: "2", Item: "book", Key: "b"}); !errors.Is(err, mainstem.ErrUnknownOutcome) {
		t.Errorf("the write that fails: %v", err)
	}
	var refused *mainstem.Error
	if _, err := s.bus.Dispatch(context.Background(), place{ID: "3", Item: "book", Key: "c"}); !errors.As(err, &refused) || refused.Outcome != mainstem.NotWritten {
		t.Errorf("after it: %v", err)
	}
}

func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := virtual(t)
		bus, err := command.Open(log, "slow", nil)
		if err != nil {
			t.Fatal(err)
		}
		go_on := make(chan struct{})
		err = command.Handle(bus, func(ctx context.Context, n named) (command.Result, error) {
			if n == "inner" {
				return command.Result{Data: 7}, nil
			}
			<-go_on
			return bus.Dispatch(ctx, named("inner")) // while Close waits
		})
		if err != nil {
			t.Fatal(err)
		}
		p := bus.DispatchAsync(t.Context(), named(""))
		closed := make(chan struct{})
		go func() { _ = bus.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Fatal("Close did not wait")
		case <-p.Done():
			t.Fatal("the command did not wait")
		default:
		}
		if p.Err() != nil {
			t.Error("an error before the end:", p.Err())
		}
		impatient, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("no patience"))
		if _, err := p.Wait(impatient); err == nil || err.Error() != "no patience" {
			t.Errorf("waiting with a context that has ended: %v", err)
		}
		close(go_on)
		<-closed
		if r, err := p.Wait(t.Context()); err != nil || r.Data != 7 {
			t.Errorf("the command under way: %+v, %v", r, err)
		}
		if _, err := bus.Dispatch(t.Context(), named("")); !errors.Is(err, command.ErrBusClosed) || !errors.Is(err, mainstem.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		p = bus.DispatchAsync(t.Context(), named(""))
		if <-p.Done(); !errors.Is(p.Err(), command.ErrBusClosed) {
			t.Errorf("after Close: %v", p.Err())
		}
		if err := bus.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The context of a handler that has ended does not open a closed bus.
func TestCloseRefusesOldContexts(t *testing.T) {
	s := newShop(t)
	var old context.Context
	err := command.Handle(s.bus, func(ctx context.Context, _ named) (command.Result, error) {
		old = ctx
		return command.Result{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.dispatch(named(""))
	if err := s.bus.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.bus.Dispatch(old, named("")); !errors.Is(err, command.ErrBusClosed) {
		t.Errorf("after Close: %v, want ErrBusClosed", err)
	}
}

func TestDispatchAll(t *testing.T) {
	s := newShop(t)
	rs, err := s.bus.DispatchAll(t.Context(), place{ID: "1", Item: "book"}, &pay{Order: "1"}, &pay{Order: "none"}, place{ID: "2", Item: "book"})
	if len(rs) != 2 || !errors.Is(err, mainstem.ErrNotFound) || !strings.Contains(err.Error(), "3 of 4") || s.sold("book") != 1 {
		t.Errorf("%d results, %v", len(rs), err)
	}
	if _, err := s.bus.DispatchAll(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOrderOfMiddleware(t *testing.T) {
	var seen []string
	note := func(name string) command.Middleware {
		return func(next command.Handler) command.Handler {
			return func(ctx context.Context, cmd command.Command) (command.Result, error) {
				seen = append(seen, name)
				r, err := next(ctx, cmd)
				seen = append(seen, "/"+name)
				return r, err
			}
		}
	}
	type key struct{}
	s := newShop(t, note("a"), command.Value(key{}, "v"), command.If(func(c command.Command) bool { return c.CommandType() == "Pay" }, note("if")),
		command.For([]string{"Place"}, note("for")), func(next command.Handler) command.Handler {
			return func(ctx context.Context, cmd command.Command) (command.Result, error) {
				seen = append(seen, fmt.Sprint(ctx.Value(key{})))
				return next(ctx, cmd)
			}
		})
	s.dispatch(place{ID: "1", Item: "book"})
	s.dispatch(&pay{Order: "1"})
	if got := strings.Join(seen, " "); got != "a for v /for /a a if v /if /a" {
		t.Errorf("it ran %s", got)
	}
}

func TestValidation(t *testing.T) {
	s := newShop(t, command.Validation())
	var v *command.ValidationError
	_, err := s.bus.Dispatch(t.Context(), place{ID: "1"})
	if !errors.As(err, &v) || v.Command != "Place" || v.Field != "item" || !errors.Is(err, mainstem.ErrInvalid) || err.Error() != "command Place: item: there is none" {
		t.Errorf("one field: %v", err)
	}
	plain := errors.New("just wrong")
	_, err = s.bus.Dispatch(t.Context(), &pay{Wrong: errors.Join(plain, command.Invalid("order", "%q", "?"))})
	if !errors.Is(err, plain) || err.Error() != "command Pay: just wrong\ncommand Pay: order: \"?\"" {
		t.Errorf("several: %v", err)
	}
	if len(s.events("1")) != 0 {
		t.Error("it was handled")
	}
}

func TestRecovery(t *testing.T) {
	s := newShop(t, command.Recovery())
	var p *command.PanicError
	cause := errors.New("boom")
	_, err := s.bus.Dispatch(t.Context(), place{ID: "1", Item: "book", Panic: cause})
	if !errors.As(err, &p) || p.Command != "Place" || !errors.Is(err, cause) || !bytes.Contains(p.Stack, []byte("domain_test.go")) || s.sold("book") != 0 {
		t.Errorf("a panic: %v; sold %d", err, s.sold("book"))
	}
	s.dispatch(place{ID: "1", Item: "book"}) // and the bus goes on
}

func TestTimeoutAndLogging(t *testing.T) {
	var lines bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&lines, nil))
	synctest.Test(t, func(t *testing.T) {
		bus, err := command.Open(virtual(t), "slow", nil, command.Logging(logger), command.Timeout(time.Minute), command.Timeout(0))
		if err != nil {
			t.Fatal(err)
		}
		err = command.Handle(bus, func(ctx context.Context, n named) (command.Result, error) {
			if n == "quick" {
				return command.Result{AggregateID: "7", Version: 3}, nil
			}
			<-ctx.Done()
			return command.Result{}, context.Cause(ctx)
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bus.Dispatch(t.Context(), named("quick")); err != nil {
			t.Error(err)
		}
		if _, err := bus.Dispatch(t.Context(), named("")); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "command Named took longer than 1m0s") {
			t.Errorf("late: %v", err)
		}
	})
	for _, want := range []string{"level=INFO msg=\"command handled\" command=Named duration=0s aggregate=7 version=3", "level=ERROR msg=\"command failed\" command=Named duration=1m0s err="} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("no line with %s in\n%s", want, &lines)
		}
	}
}

func TestMetadataOfEvents(t *testing.T) {
	tenant := func(_ context.Context, cmd command.Command) string {
		if p, ok := cmd.(place); ok {
			return p.Metadata["tenant"]
		}
		return ""
	}
	made := func() string { return "made" }
	for _, c := range []struct {
		what       string
		middleware []command.Middleware
		base       command.Base
		want       event.Metadata
	}{
		{"nothing", nil, command.Base{}, event.Metadata{UserID: "ann"}},
		{"ID", nil, command.Base{CommandID: "c", CausationID: "b", CorrelationID: "a"}, event.Metadata{UserID: "ann", CorrelationID: "a", CausationID: "c"}},
		{"causation without ID", nil, command.Base{CausationID: "b"}, event.Metadata{UserID: "ann", CausationID: "b"}},
		{"causation by middleware", []command.Middleware{command.CausationID()}, command.Base{CommandID: "c", CausationID: "b"}, event.Metadata{UserID: "ann", CausationID: "b"}},
		{"causation by middleware, none", []command.Middleware{command.CausationID()}, command.Base{CommandID: "c"}, event.Metadata{UserID: "ann", CausationID: "c"}},
		{"correlation made", []command.Middleware{command.CorrelationID(made)}, command.Base{}, event.Metadata{UserID: "ann", CorrelationID: "made"}},
		{"correlation kept", []command.Middleware{command.CorrelationID(made)}, command.Base{CorrelationID: "a"}, event.Metadata{UserID: "ann", CorrelationID: "a"}},
		{
			"tenant", []command.Middleware{command.Tenant(tenant, true)}, command.Base{Metadata: map[string]string{"tenant": "acme"}},
			event.Metadata{UserID: "ann", TenantID: "acme", Custom: map[string]string{"tenant": "acme"}},
		},
	} {
		s := newShop(t, c.middleware...)
		if _, err := s.bus.Dispatch(command.WithActor(t.Context(), "ann"), place{Base: c.base, ID: "1", Item: "book"}); err != nil {
			t.Fatal(c.what, err)
		}
		if got := s.events("1")[0].Metadata; fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: the event has %+v, want %+v", c.what, got, c.want)
		}
	}
	s := newShop(t, command.Tenant(tenant, true))
	var v *command.ValidationError
	if _, err := s.bus.Dispatch(t.Context(), place{ID: "1", Item: "book"}); !errors.As(err, &v) || v.Field != "tenant" {
		t.Errorf("without the tenant that is required: %v", err)
	}
}

// A command cannot join one of a bus of another log, which would get its writes.
func TestJoinOfAnotherLog(t *testing.T) {
	s, other := newShop(t), newShop(t)
	s.dispatch(place{ID: "1", Item: "book"})
	err := command.Handle(other.bus, func(ctx context.Context, _ named) (command.Result, error) {
		if _, err := s.bus.Dispatch(command.Join(ctx), &pay{Order: "1"}); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("join: %v, want Invalid", err)
		}
		other.stock.PutTo(command.Batch(ctx), "outer", 1)
		return command.Result{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.bus.Dispatch(t.Context(), named("")); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("the outer command: %v, want Invalid", err)
	}
	if n := len(s.events("1")) - 1 + len(other.events("1")) + other.sold("outer"); n != 0 {
		t.Errorf("%d writes, want none", n)
	}
}

// A joined command is part of the outer commit; one that is not joined is a commit of its own.
func TestJoin(t *testing.T) {
	for _, c := range []struct {
		what         string
		join, ignore bool
		inner, outer error
		paid, placed bool
	}{
		{"joined", true, false, nil, nil, true, true},
		{"joined, outer fails", true, false, nil, errors.New("no"), false, false},
		{"joined, inner fails", true, false, errors.New("no"), nil, false, false},
		{"joined, inner fails and is ignored", true, true, errors.New("no"), nil, false, false},
		{"apart", false, false, nil, nil, true, true},
		{"apart, outer fails", false, false, nil, errors.New("no"), true, false},
		{"apart, inner fails and is ignored", false, true, errors.New("no"), nil, false, true},
	} {
		s := newShop(t, command.Retry(command.RetryOptions{}), command.Validation())
		s.dispatch(place{ID: "1", Item: "book"})
		err := command.Handle(s.bus, func(ctx context.Context, _ named) (command.Result, error) {
			inner := ctx
			if c.join {
				inner = command.Join(ctx)
			}
			_, err := s.bus.Dispatch(inner, &pay{Order: "1", Wrong: c.inner})
			if err != nil && !c.ignore {
				return command.Result{}, err
			}
			s.stock.PutTo(command.Batch(ctx), "outer", 1)
			return command.Result{}, c.outer
		})
		if err != nil {
			t.Fatal(err)
		}
		before := s.log.commits.Load()
		_, err = s.bus.Dispatch(t.Context(), named(""))
		paid, placed := len(s.events("1")) == 2, s.sold("outer") == 1
		if paid != c.paid || placed != c.placed || (err == nil) != c.placed {
			t.Errorf("%s: paid %v, outer %v, %v", c.what, paid, placed, err)
		}
		if n := s.log.commits.Load() - before; c.join && c.placed && n != 1 {
			t.Errorf("%s: %d commits", c.what, n)
		}
	}
}

// A joined command that panics fails the outer one, even if its handler recovers.
func TestJoinOfAPanic(t *testing.T) {
	s := newShop(t)
	err := command.Handle(s.bus, func(ctx context.Context, _ named) (r command.Result, err error) {
		defer func() { _ = recover() }()
		return s.bus.Dispatch(command.Join(ctx), place{ID: "1", Item: "book", Panic: "boom"})
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.bus.Dispatch(t.Context(), named("")); err == nil || s.sold("book") != 0 {
		t.Errorf("%v, sold %d", err, s.sold("book"))
	}
}

func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks := 0
		outer := func(next command.Handler) command.Handler {
			return func(ctx context.Context, cmd command.Command) (command.Result, error) {
				command.BeforeCommit(ctx, func(context.Context, *mainstem.Batch, *command.Result) error { hooks++; return nil })
				return next(ctx, cmd)
			}
		}
		s := shopOn(t, virtual(t), outer, command.Retry(command.RetryOptions{Attempts: 4}))
		conflicts, tries := 2, 0
		err := command.Handle(s.bus, func(ctx context.Context, n named) (command.Result, error) {
			tries++
			b := command.Batch(ctx)
			if len(b.Writes()) != 0 {
				t.Error("the batch holds what the try before wrote")
			}
			if err := s.take(ctx, b, "book"); err != nil {
				return command.Result{}, err
			}
			if tries <= conflicts {
				if err := s.stock.Delete(ctx, "book"); err != nil { // somebody else
					t.Error(err)
				}
				if _, err := s.stock.Put(ctx, "book", 100*tries); err != nil {
					t.Error(err)
				}
			}
			return command.Result{}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if r := s.dispatch(named("")); r.Position == 0 || tries != 3 || hooks != 3 || s.sold("book") != 201 {
			t.Errorf("%d tries, %d hooks, sold %d", tries, hooks, s.sold("book"))
		}
		if d := time.Since(began); d < 240*time.Millisecond || d > 300*time.Millisecond {
			t.Errorf("the pauses were %v, want 100 ms and 200 ms less up to a fifth", d)
		}
		conflicts, tries = 1<<30, 0
		if _, err := s.bus.Dispatch(t.Context(), named("")); !errors.Is(err, mainstem.ErrConflict) || tries != 4 || !strings.Contains(err.Error(), "after 4 attempts") {
			t.Errorf("conflicts for ever: %v after %d tries", err, tries)
		}
		tries = 0
		s.log.commit = func(context.Context, *mainstem.Batch) (mainstem.Receipt, error) {
			tries++
			return mainstem.Receipt{}, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "commit", Outcome: mainstem.NotWritten}
		}
		if _, err := s.bus.Dispatch(t.Context(), place{ID: "9", Item: "book"}); !errors.Is(err, mainstem.ErrInvalid) || tries != 1 {
			t.Errorf("what can never succeed: %v after %d tries", err, tries)
		}
	})
}

// A write that takes the context instead of the batch remains when the command fails.
func TestWritesBesideTheBatch(t *testing.T) {
	s := newShop(t)
	err := command.Handle(s.bus, func(ctx context.Context, _ named) (command.Result, error) {
		if _, err := s.stock.Put(ctx, "beside", 1); err != nil {
			return command.Result{}, err
		}
		s.stock.PutTo(command.Batch(ctx), "inside", 1)
		return command.Result{}, aggregate.ErrTerminal
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.bus.Dispatch(t.Context(), named("")); !errors.Is(err, aggregate.ErrTerminal) || s.sold("beside") != 1 || s.sold("inside") != 0 {
		t.Errorf("%v; beside %d, inside %d", err, s.sold("beside"), s.sold("inside"))
	}
}
