package event_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

const effects = "effects"

// counter returns a handler that counts the events of each stream, by reading what
// it wrote before: every event handled twice, or not at all, shows.
func counter(log mainstem.Log) event.Handler {
	return func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
		n := 0
		rec, err := log.Get(ctx, effects, []byte(ev.Stream))
		switch {
		case err == nil:
			n, _ = strconv.Atoi(string(rec.Value))
			b.IfVersion(effects, rec.Key, rec.Version)
		case errors.Is(err, mainstem.ErrNotFound):
			b.IfAbsent(effects, []byte(ev.Stream))
		default:
			return err
		}
		if want := int(ev.Version) - 1; n != want {
			return fmt.Errorf("stream %s: %d events are counted before version %d", ev.Stream, n, ev.Version)
		}
		b.Ensure(effects, mainstem.Policy{History: 1})
		b.Put(effects, []byte(ev.Stream), strconv.AppendInt(nil, int64(n+1), 10))
		return nil
	}
}

// counted fails unless the effects are those of every event once.
func counted(t *testing.T, log mainstem.Log, s *event.Store) {
	t.Helper()
	for e, err := range s.Streams(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		rec, err := log.Get(t.Context(), effects, []byte(e.Stream))
		if err != nil || string(rec.Value) != strconv.FormatUint(uint64(e.Version), 10) {
			t.Fatalf("stream %s: %q events are counted, %v: want %d", e.Stream, rec.Value, err, e.Version)
		}
	}
}

// quick makes failures repeat without long pauses.
func quick(o event.SubscribeOptions) *event.SubscribeOptions {
	o.Backoff, o.MaxBackoff = time.Microsecond, time.Millisecond
	return &o
}

func subscribe(t *testing.T, s *event.Store, o *event.SubscribeOptions, h event.Handler) *event.Subscription {
	t.Helper()
	sub, err := s.Subscribe(within(t), "count", o, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sub.Close() })
	return sub
}

func waitFor(t *testing.T, sub *event.Subscription, p mainstem.Position) {
	t.Helper()
	if err := sub.WaitFor(within(t), p); err != nil {
		t.Fatalf("wait for position %d: %v", p, err)
	}
}

func TestSubscriptionHandlesEachEventOnce(t *testing.T) {
	for _, maxBatch := range []int{1, 7} {
		t.Run(fmt.Sprintf("batches of %d", maxBatch), func(t *testing.T) {
			each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
				for i := range 40 {
					write(t, s, fmt.Sprintf("order-%d", i%20), event.AnyVersion, some("A", 1))
				}
				var seen []string
				count := counter(log)
				sub := subscribe(t, s, quick(event.SubscribeOptions{MaxBatch: maxBatch}), func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
					seen = append(seen, fmt.Sprintf("%s@%d", ev.Stream, ev.Version))
					return count(ctx, b, ev)
				})
				<-sub.CaughtUp()
				counted(t, log, s)
				for i := range 40 {
					a := write(t, s, fmt.Sprintf("order-%d", i%20), event.AnyVersion, some("A", i%3+1))
					if i%10 == 0 {
						waitFor(t, sub, a.LastPosition)
						testkit.Eventually(t, "lag 0", func() bool { lag, err := sub.Lag(t.Context()); return err == nil && lag == 0 })
					}
				}
				last, err := s.LastPosition(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				waitFor(t, sub, last)
				counted(t, log, s)
				if err := sub.Close(); err != nil || sub.Err() != nil {
					t.Fatalf("close: %v, %v", err, sub.Err())
				}
				if sub.Position() < last {
					t.Fatalf("position %d is before the last event, %d", sub.Position(), last)
				}
				// With several events in a batch, the counter refuses the second of one
				// stream: they come again, alone.
				if want := at(collect(t, s.Feed(t.Context(), nil))); maxBatch == 1 && !slices.Equal(seen, want) {
					t.Fatalf("handled %q: want %q", seen, want)
				}
				cp, err := s.Checkpoint(t.Context(), "count")
				if err != nil || cp.Position != last || cp.Name != "count" || cp.Updated.IsZero() {
					t.Fatalf("checkpoint %+v, %v", cp, err)
				}
			})
		})
	}
}

func TestSubscriptionResumes(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		for round := range 5 {
			for i := range 10 {
				write(t, s, fmt.Sprintf("order-%d", i%3), event.AnyVersion, some("A", 2))
			}
			handled := 0
			count := counter(log)
			sub := subscribe(t, s, nil, func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
				handled++
				return count(ctx, b, ev)
			})
			<-sub.CaughtUp()
			if err := sub.Close(); err != nil {
				t.Fatal(err)
			}
			wantEqual(t, fmt.Sprintf("events handled in round %d", round), handled, 20)
			counted(t, log, s)
		}
	})
}

// Handlers that fail, panic or write what cannot be committed take no effect and
// are called again.
func TestSubscriptionTriesAgain(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		for _, maxBatch := range []int{1, 5} {
			for i := range 30 {
				write(t, s, fmt.Sprintf("order-%d", i), event.AnyVersion, some("A", 1))
			}
			calls := 0
			count := counter(log)
			sub := subscribe(t, s, quick(event.SubscribeOptions{Attempts: -1, MaxBatch: maxBatch}), func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
				if err := count(ctx, b, ev); err != nil {
					return err
				}
				switch calls++; calls % 6 {
				case 1:
					return errors.New("failed after writing")
				case 2:
					panic("panicked after writing")
				case 3:
					b.IfExists(effects, []byte("nobody"))
				case 4:
					b.Fail(errors.New("refused"))
				}
				return nil
			})
			<-sub.CaughtUp()
			if err := sub.Close(); err != nil {
				t.Fatal(err)
			}
			counted(t, log, s)
		}
	})
}

func TestSubscriptionStopsOnPoison(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 2))
		bad := write(t, s, "order-1", 2, some("Bad", 1))
		write(t, s, "order-1", 3, some("A", 2))
		cause := errors.New("no use")
		calls := 0
		sub := subscribe(t, s, quick(event.SubscribeOptions{Attempts: 3, MaxBatch: 4}), func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
			if ev.Type == "Bad" {
				calls++
				return cause
			}
			return nil
		})
		<-sub.Done()
		var poison *event.PoisonError
		if err := sub.Err(); !errors.As(err, &poison) || !errors.Is(err, cause) {
			t.Fatalf("ended with %v", err)
		}
		if poison.Subscription != "count" || poison.Stream != "order-1" || poison.Version != 3 || poison.Position != bad.FirstPosition || poison.Type != "Bad" || poison.Attempts != 3 {
			t.Fatalf("poison %+v", poison)
		}
		wantEqual(t, "calls for the bad event", calls, 4) // once in a batch, then three times alone
		cp, err := s.Checkpoint(t.Context(), "count")
		if err != nil || cp.Position != bad.FirstPosition-1 {
			t.Fatalf("checkpoint %+v, %v: want just before position %d", cp, err, bad.FirstPosition)
		}
		if err := sub.WaitFor(within(t), bad.LastPosition); !errors.As(err, &poison) {
			t.Fatalf("wait for a position that is never reached: %v", err)
		}
	})
}

func TestSubscriptionParksPoison(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 2))
		bad1 := write(t, s, "order-1", 2, some("Bad", 1))
		bad2 := write(t, s, "order-2", event.NoStream, some("Bad", 1))
		gone := write(t, s, "order-3", event.NoStream, some("Bad", 1))
		last := write(t, s, "order-1", 3, some("A", 2))
		var handled atomic.Int32
		var mend atomic.Bool
		long := strings.Repeat("x", 2*event.MaxReason)
		handler := func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
			b.Ensure(effects, mainstem.Policy{})
			b.Put(effects, []byte(ev.Stream), ev.Data)
			if ev.Type == "Bad" && !mend.Load() {
				return errors.New(long)
			}
			handled.Add(1)
			return nil
		}
		sub := subscribe(t, s, quick(event.SubscribeOptions{Attempts: 2, OnPoison: event.ParkPoison}), handler)
		waitFor(t, sub, last.LastPosition)
		wantEqual(t, "events handled", handled.Load(), 4)
		parked := collect(t, s.Parked(t.Context(), "count"))
		if len(parked) != 3 || parked[0].Position != bad1.FirstPosition || parked[1].Position != bad2.FirstPosition {
			t.Fatalf("parked %+v", parked)
		}
		if p := parked[0]; p.Subscription != "count" || p.Stream != "order-1" || p.Version != 3 || p.Attempts != 2 || p.Reason != long[:event.MaxReason] || p.Time.IsZero() {
			t.Fatalf("parked %+v", p)
		}
		wantEqual(t, "parked by another subscription", len(collect(t, s.Parked(t.Context(), "coun"))), 0)

		n, err := s.RetryParked(t.Context(), "count", handler)
		if err != nil || n != 0 {
			t.Fatalf("retried without success: %d, %v", n, err)
		}
		wantEqual(t, "attempts", collect(t, s.Parked(t.Context(), "count"))[0].Attempts, 3)

		mend.Store(true)
		do(t, s, func(b *mainstem.Batch) { s.ForgetTo(b, "order-3") }) // nothing is left of what is parked
		before := handled.Load()
		n, err = s.RetryParked(t.Context(), "count", handler)
		if err != nil || n != 3 || handled.Load() != before+2 {
			t.Fatalf("retried %d, handled %d, %v (event %d is gone)", n, handled.Load()-before, err, gone.FirstPosition)
		}
		wantEqual(t, "still parked", len(collect(t, s.Parked(t.Context(), "count"))), 0)
		err = s.Unpark(t.Context(), parked[0])
		wantKind(t, err, mainstem.ErrConflict)
	})
}

// TestRetryParkedAfterAnIndexWasMade retries with a handler that appends, by a handle that does not
// know yet that the store has an index.
func TestRetryParkedAfterAnIndexWasMade(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		bad := write(t, s, "order-1", event.NoStream, some("Bad", 1))
		sub := subscribe(t, s, quick(event.SubscribeOptions{Attempts: 1, OnPoison: event.ParkPoison}), func(context.Context, *mainstem.Batch, event.Recorded) error {
			return errors.New("not yet")
		})
		waitFor(t, sub, bad.LastPosition)
		if _, err := event.OpenIndexed(t.Context(), log, s.Name(), nil, nil); err != nil {
			t.Fatal(err)
		}
		n, err := s.RetryParked(t.Context(), "count", func(_ context.Context, b *mainstem.Batch, ev event.Recorded) error {
			s.AppendTo(b, "late-1", event.NoStream, some("Late", 1))
			return nil
		})
		if err != nil || n != 1 {
			t.Errorf("%d retried, %v; left %+v", n, err, collect(t, s.Parked(t.Context(), "count")))
		}
	})
}

// Two exclusive instances of one subscription never both advance: one goes on, the
// other says so, also in the log, and ends.
func TestExclusiveSubscriptionEnds(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		hold := make(chan struct{})
		entered := make(chan struct{}, 1)
		count := counter(log)
		var logged testkit.Lines
		slow := subscribe(t, s, &event.SubscribeOptions{Exclusive: true, Logger: logged.Logger()}, func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
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
		close(hold)
		<-slow.Done()
		if err := slow.Err(); !errors.Is(err, event.ErrCheckpointMoved) || !errors.Is(err, mainstem.ErrConflict) {
			t.Fatalf("the slow instance ended with %v", err)
		}
		wantLine(t, &logged, "level=ERROR", "subscription has ended", "subscription=count", "moved by another instance")
		a = write(t, s, "order-1", 1, some("A", 3))
		waitFor(t, fast, a.LastPosition)
		counted(t, log, s)
		if err := fast.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSubscriptionsCompete(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		var subs []*event.Subscription
		for range 3 {
			subs = append(subs, subscribe(t, s, quick(event.SubscribeOptions{}), counter(log)))
		}
		var last mainstem.Position
		for i := range 200 {
			last = write(t, s, fmt.Sprintf("order-%d", i%5), event.AnyVersion, some("A", 1)).LastPosition
			if i == 100 {
				if err := subs[0].Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.WaitFor(within(t), "count", last); err != nil {
			t.Fatal(err)
		}
		counted(t, log, s)
		for _, sub := range subs {
			if err := sub.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestCheckpointsCanBeMoved(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		for i := range 5 {
			write(t, s, fmt.Sprintf("order-%d", i), event.NoStream, some("A", 2))
		}
		last, _ := s.LastPosition(t.Context())
		var handled atomic.Int32
		sub := subscribe(t, s, quick(event.SubscribeOptions{}), func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
			handled.Add(1)
			return nil
		})
		waitFor(t, sub, last)
		wantEqual(t, "handled", handled.Load(), 10)
		do(t, s, func(b *mainstem.Batch) { s.SetCheckpointTo(b, "count", 0) })
		last = write(t, s, "order-9", event.NoStream, some("A", 1)).LastPosition
		waitFor(t, sub, last)
		if n := handled.Load(); n < 21 || n > 22 { // the event that shows the move may be handled twice
			t.Fatalf("handled %d after starting anew", n)
		}
		do(t, s, func(b *mainstem.Batch) { s.SetCheckpointTo(b, "other", 3) })
		cps := collect(t, s.Checkpoints(t.Context()))
		if len(cps) != 2 || cps[0].Name != "count" || cps[0].Position != last || cps[1].Name != "other" || cps[1].Position != 3 {
			t.Fatalf("checkpoints %+v", cps)
		}
		if err := sub.Close(); err != nil {
			t.Fatal(err)
		}
		do(t, s, func(b *mainstem.Batch) { s.DeleteCheckpointTo(b, "count") })
		_, err := s.Checkpoint(t.Context(), "count")
		wantKind(t, err, mainstem.ErrNotFound)

		strict := subscribe(t, s, &event.SubscribeOptions{Exclusive: true}, counter(log))
		<-strict.CaughtUp()
		do(t, s, func(b *mainstem.Batch) { s.SetCheckpointTo(b, "count", 0) })
		write(t, s, "order-9", event.AnyVersion, some("A", 1))
		<-strict.Done()
		if err := strict.Err(); !errors.Is(err, event.ErrCheckpointMoved) || !errors.Is(err, mainstem.ErrConflict) {
			t.Fatalf("ended with %v", err)
		}
	})
}

func TestSubscriptionSelects(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 1))
		write(t, s, "user-1", event.NoStream, some("A", 1))
		write(t, s, "order-2", event.NoStream, some("B", 1))
		write(t, s, "order-3", event.NoStream, some("A", 1))
		do(t, s, func(b *mainstem.Batch) { s.ArchiveTo(b, "order-3") })
		var mu sync.Mutex
		var seen []string
		sub := subscribe(t, s, &event.SubscribeOptions{Filter: event.Filter{Category: "order", Types: []string{"A"}, Deletions: true}}, func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprintf("%s %s", ev.Stream, ev.Type))
			return nil
		})
		// Waiting works for positions that the subscription does not select, too.
		last, _ := s.LastPosition(t.Context())
		waitFor(t, sub, last)
		a := write(t, s, "user-1", 1, some("A", 3))
		if err := s.WaitFor(within(t), "count", a.LastPosition); err != nil {
			t.Fatal(err)
		}
		a = write(t, s, "order-1", 1, some("B", 1))
		waitFor(t, sub, a.LastPosition)
		a = write(t, s, "order-1", 2, some("A", 1))
		do(t, s, func(b *mainstem.Batch) { s.DeleteTo(b, "order-2", event.AnyVersion) })
		last, _ = s.LastPosition(t.Context())
		waitFor(t, sub, last)
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"order-1 A", "order-1 A", "order-2 $deleted"}; !slices.Equal(seen, want) {
			t.Fatalf("handled %q: want %q", seen, want)
		}
		wantKind(t, s.WaitFor(t.Context(), "count", last+100), mainstem.ErrInvalid)
	})
}

func TestSubscriptionBegins(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		a := write(t, s, "order-1", event.NoStream, some("A", 5))
		for name, c := range map[string]struct {
			o    event.SubscribeOptions
			want int
		}{
			"first": {event.SubscribeOptions{}, 5},
			"after": {event.SubscribeOptions{After: a.FirstPosition}, 4},
			"tail":  {event.SubscribeOptions{Tail: true}, 0},
		} {
			n := 0
			sub, err := s.Subscribe(within(t), name, &c.o, func(context.Context, *mainstem.Batch, event.Recorded) error { n++; return nil })
			if err != nil {
				t.Fatal(err)
			}
			<-sub.CaughtUp()
			if err := sub.Close(); err != nil || n != c.want {
				t.Errorf("%s: %d events, %v: want %d", name, n, err, c.want)
			}
		}
		nothing := func(context.Context, *mainstem.Batch, event.Recorded) error { return nil }
		for name, o := range map[string]event.SubscribeOptions{
			"after and tail": {After: 1, Tail: true}, "batch": {MaxBatch: -1}, "policy": {OnPoison: 9}, "backoff": {Backoff: -1},
			"durability": {Durability: -9}, "category": {Filter: event.Filter{Category: "a-b"}},
		} {
			if _, err := s.Subscribe(t.Context(), "x", &o, nothing); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%s: %v: want Invalid", name, err)
			}
		}
		for _, name := range []string{"", "a\n", strings.Repeat("x", event.MaxSubscription+1)} {
			if _, err := s.Subscribe(t.Context(), name, nil, nothing); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("name %.9q: %v: want Invalid", name, err)
			}
		}
		if _, err := s.Subscribe(t.Context(), "x", nil, nil); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("no handler: %v: want Invalid", err)
		}
	})
}

func TestSubscribeBatch(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		for range 10 {
			write(t, s, "order-1", event.AnyVersion, some("A", 25))
		}
		var sizes []int
		next := mainstem.Version(1)
		failed := false
		sub, err := s.SubscribeBatch(within(t), "count", quick(event.SubscribeOptions{MaxBatch: 100}), func(ctx context.Context, b *mainstem.Batch, evs []event.Recorded) error {
			if len(evs) > 1 && len(sizes) == 1 && !failed {
				failed = true
				return errors.New("together they are too much") // then each comes alone
			}
			sizes = append(sizes, len(evs))
			for _, ev := range evs {
				if ev.Version != next {
					return fmt.Errorf("version %d where %d should come", ev.Version, next)
				}
				next++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		<-sub.CaughtUp()
		if err := sub.Close(); err != nil {
			t.Fatal(err)
		}
		want := append(append([]int{100}, slices.Repeat([]int{1}, 100)...), 50)
		if !slices.Equal(sizes, want) {
			t.Fatalf("sizes of the batches %v: want %v", sizes, want)
		}
	})
}

func TestSubscriptionEnds(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 1))
		// Close lets the handler finish, and commits.
		entered, finish := make(chan struct{}), make(chan struct{})
		sub := subscribe(t, s, nil, func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
			close(entered)
			<-finish
			return ctx.Err()
		})
		<-entered
		wantEqual(t, "error of a running subscription", sub.Err(), nil)
		closed := make(chan error)
		go func() { closed <- sub.Close() }()
		close(finish)
		if err := <-closed; err != nil {
			t.Fatalf("close: %v", err)
		}
		cp, err := s.Checkpoint(t.Context(), "count")
		if err != nil || cp.Position != 1 {
			t.Fatalf("checkpoint %+v, %v", cp, err)
		}
		wantKind(t, sub.WaitFor(t.Context(), write(t, s, "order-1", 1, some("A", 1)).LastPosition), mainstem.ErrClosed)

		// Cancelling ends at once, also a pause, and says so.
		ctx, cancel := context.WithCancel(t.Context())
		failing := make(chan struct{}, 1)
		sub, err = s.Subscribe(ctx, "count", &event.SubscribeOptions{Backoff: time.Hour}, func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
			failing <- struct{}{}
			return errors.New("no use")
		})
		if err != nil {
			t.Fatal(err)
		}
		<-failing
		cancel()
		<-sub.Done()
		wantKind(t, sub.Err(), mainstem.ErrCanceled)
		if !errors.Is(sub.Close(), context.Canceled) {
			t.Fatalf("close after cancel: %v", sub.Close())
		}

		// Closing the log ends it.
		sub = subscribe(t, s, nil, func(context.Context, *mainstem.Batch, event.Recorded) error { return nil })
		<-sub.CaughtUp()
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		<-sub.Done()
		wantKind(t, sub.Err(), mainstem.ErrClosed)
	})
}

// A handler that ends its goroutine, as t.FailNow does, ends the subscription, and
// nobody waits for it without end.
func TestHandlerThatNeverReturns(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		a := write(t, s, "order-1", event.NoStream, some("A", 1))
		sub := subscribe(t, s, nil, func(context.Context, *mainstem.Batch, event.Recorded) error {
			runtime.Goexit()
			return nil
		})
		if err := sub.WaitFor(within(t), a.LastPosition); err == nil || err != sub.Err() {
			t.Fatalf("wait: %v; ended with %v", err, sub.Err())
		}
		if err := sub.Close(); err == nil {
			t.Fatal("close says that all is well")
		}
	})
}
