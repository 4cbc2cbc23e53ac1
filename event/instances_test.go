package event_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// A second instance of a service shares the work by default: the one that comes too
// late goes on, logs who was first, and takes over when that one ends.
func TestSecondInstanceTakesOver(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		hold, entered := make(chan struct{}), make(chan struct{}, 1)
		count := counter(log)
		var logged testkit.Lines
		slow := subscribe(t, s, quick(event.SubscribeOptions{Logger: logged.Logger()}), func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
			err := count(ctx, b, ev)
			select {
			case entered <- struct{}{}:
			default:
			}
			<-hold
			return err
		})
		a := write(t, s, "order-1", event.NoStream, some("A", 1))
		<-entered
		fast := subscribe(t, s, nil, counter(log))
		waitFor(t, fast, a.LastPosition)
		cp, err := s.Checkpoint(t.Context(), "count")
		if err != nil || cp.Owner == "" {
			t.Fatalf("checkpoint %+v, %v: want its owner", cp, err)
		}
		if err := fast.Close(); err != nil {
			t.Fatal(err)
		}
		close(hold)
		a = write(t, s, "order-1", 1, some("A", 3))
		waitFor(t, slow, a.LastPosition)
		counted(t, log, s)
		if err := slow.Close(); err != nil {
			t.Fatal(err)
		}
		wantLine(t, &logged, "level=INFO", "another instance has moved the checkpoint", "subscription=count", "owner="+strconv.Quote(cp.Owner))
	})
}

// wantLine fails unless one line of logged has all parts.
func wantLine(t *testing.T, logged *testkit.Lines, parts ...string) {
	t.Helper()
	for line := range strings.Lines(logged.String()) {
		found := true
		for _, p := range parts {
			found = found && strings.Contains(line, p)
		}
		if found {
			return
		}
	}
	t.Fatalf("no line has all of %q in:\n%s", parts, logged)
}
