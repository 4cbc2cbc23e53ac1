package event_test

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// A second instance of a service shares the work by default: the one that comes too
// late goes on, logs who was first, and takes over when that one ends.
func TestSecondInstanceTakesOver(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		hold, entered := make(chan struct{}), make(chan struct{}, 1)
		count := counter(log)
		var logged logs
		slow := subscribe(t, s, quick(event.SubscribeOptions{Logger: logged.logger()}), func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
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
		logged.wants(t, "level=INFO", "another instance has moved the checkpoint", "subscription=count", "owner="+strconv.Quote(cp.Owner))
	})
}

// logs collects what is logged.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// wants fails unless one line has all parts.
func (l *logs) wants(t *testing.T, parts ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		found := true
		for _, p := range parts {
			found = found && strings.Contains(line, p)
		}
		if found {
			return
		}
	}
	t.Fatalf("no line has all of %q in:\n%s", parts, l.text.String())
}
