package command_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/command"
)

// A hook of the context is called for the command that is dispatched with it: in each try, before
// the hooks of the middleware. It is not called for a duplicate or for commands that the handler
// dispatches.
func TestWithHook(t *testing.T) {
	var called []string
	hook := func(_ context.Context, b *mainstem.Batch, _ *command.Result) error {
		called = append(called, "context")
		return nil
	}
	outer := func(next command.Handler) command.Handler {
		return func(ctx context.Context, cmd command.Command) (command.Result, error) {
			command.BeforeCommit(ctx, func(context.Context, *mainstem.Batch, *command.Result) error {
				called = append(called, "middleware")
				return nil
			})
			return next(ctx, cmd)
		}
	}
	s := newShop(t, command.Idempotency(command.IdempotencyOptions{}), outer, command.Retry(command.RetryOptions{First: time.Microsecond}))
	if s.bus.Log() != mainstem.Log(s.log) {
		t.Error("the log of the bus is another one")
	}
	ctx := command.WithHook(t.Context(), hook)
	dispatch := func(cmd command.Command, want ...string) {
		t.Helper()
		called = nil
		if _, err := s.bus.Dispatch(ctx, cmd); err != nil {
			t.Fatal(err)
		}
		if len(called) != len(want) {
			t.Errorf("called were the hooks of %v, want %v", called, want)
		}
		for i := range min(len(want), len(called)) {
			if called[i] != want[i] {
				t.Errorf("called were the hooks of %v, want %v", called, want)
			}
		}
	}
	dispatch(place{ID: "1", Item: "book", Key: "k"}, "context", "middleware")
	dispatch(place{ID: "1", Item: "book", Key: "k"}) // a duplicate

	conflicts := 1
	err := command.Handle(s.bus, func(ctx context.Context, n named) (command.Result, error) {
		if conflicts--; conflicts >= 0 {
			return command.Result{}, mainstem.Refusef(mainstem.KindConflict, "test", "again")
		}
		_, err := s.bus.Dispatch(ctx, place{ID: "2", Item: "book"})
		return command.Result{}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	// The inner command has hooks of its middleware, and comes first.
	dispatch(named(""), "middleware", "context", "middleware")

	refuse := errors.New("refused")
	ctx = command.WithHook(t.Context(), func(context.Context, *mainstem.Batch, *command.Result) error { return refuse })
	if _, err := s.bus.Dispatch(ctx, place{ID: "3", Item: "book"}); !errors.Is(err, refuse) || len(s.events("3")) != 0 {
		t.Errorf("a hook that fails: %v", err)
	}
}

// Equal CommandIDs of different scopes are different commands, also when one is tried again after a
// conflict. An IdempotencyKey has no scope, nor has a command that the handler dispatches.
func TestWithScope(t *testing.T) {
	s := newShop(t, command.Retry(command.RetryOptions{First: time.Microsecond}), command.Idempotency(command.IdempotencyOptions{}))
	conflict, inner := false, command.Result{}
	err := command.Handle(s.bus, func(ctx context.Context, n named) (r command.Result, err error) {
		inner, err = s.bus.Dispatch(ctx, place{ID: "1", Item: "book", Base: command.Base{CommandID: "id"}})
		return r, err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		scope, key string
		conflict   bool
		duplicate  bool
	}{
		{scope: ""}, {scope: "a", conflict: true}, {scope: "b"}, {scope: "", duplicate: true}, {scope: "a", duplicate: true},
		{scope: "a", key: "k"}, {scope: "b", key: "k", duplicate: true},
	} {
		conflict = c.conflict
		ctx := command.WithScope(t.Context(), c.scope)
		ctx = command.WithHook(ctx, func(context.Context, *mainstem.Batch, *command.Result) error {
			if !conflict {
				return nil
			}
			conflict = false
			return mainstem.Refusef(mainstem.KindConflict, "test", "again")
		})
		r, err := s.bus.Dispatch(ctx, place{ID: "of-" + c.scope + c.key, Item: "book", Key: c.key, Base: command.Base{CommandID: "id"}})
		if err != nil || r.Duplicate != c.duplicate {
			t.Errorf("command %d, %+v: %+v, %v", i, c, r, err)
		}
	}
	if _, err := s.bus.Dispatch(command.WithScope(t.Context(), "c"), named("")); err != nil || !inner.Duplicate {
		t.Errorf("a command of the handler: %+v, %v", inner, err)
	}
}
