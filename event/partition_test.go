package event_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// Which partition a stream is in decides which checkpoint counts for it: it must never change.
func TestPartitionOfStaysTheSame(t *testing.T) {
	var got []int
	for _, n := range []int{1, 2, 16, 256} {
		for _, stream := range []string{"order-1", "order-2", "kunde-ä"} {
			got = append(got, event.PartitionOf(stream, n))
		}
	}
	if want := []int{0, 0, 0, 1, 1, 1, 5, 11, 5, 165, 171, 117}; !slices.Equal(got, want) {
		t.Errorf("partitions %v, want %v", got, want)
	}
	counts := make([]int, 16)
	for i := range 16000 {
		counts[event.PartitionOf(fmt.Sprint("order-", i), len(counts))]++
	}
	if lo, hi := slices.Min(counts), slices.Max(counts); lo < 800 || hi > 1200 {
		t.Errorf("16000 streams are divided into %v", counts)
	}
}

// Partitions of a feed have every event once, in the order of its stream.
func TestFeedInPartitions(t *testing.T) {
	each(t, func(t *testing.T, _ mainstem.Log, s *event.Store) {
		for i := range 60 {
			mustAppend(t, s, fmt.Sprint("order-", i%20), some("E", 2))
		}
		versions := make(map[string]mainstem.Version)
		n := 0
		for i := range 3 {
			for r, err := range s.Feed(t.Context(), &event.FeedOptions{Filter: event.Filter{Partitions: 3, Partition: i}}) {
				if err != nil {
					t.Fatal(err)
				}
				if versions[r.Stream]++; r.Version != versions[r.Stream] || event.PartitionOf(r.Stream, 3) != i {
					t.Errorf("partition %d has version %d of %s", i, r.Version, r.Stream)
				}
				n++
			}
		}
		if n != 120 {
			t.Errorf("%d events, want 120", n)
		}
		for _, f := range []event.Filter{{Partitions: -1}, {Partitions: 257}, {Partitions: 2, Partition: 2}, {Partition: 1}, {Partition: -1}} {
			if _, err := s.Page(t.Context(), &event.FeedOptions{Filter: f}); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%+v: %v, want Invalid", f, err)
			}
		}
	})
}

// A subscription with an end handles what is before it, leaves its checkpoint there, and ends.
func TestSubscriptionUntil(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		first := mustAppend(t, s, "order-1", some("E", 7))
		mustAppend(t, s, "order-1", some("E", 3))
		head, err := log.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, until := range []mainstem.Position{first.LastPosition - 2, first.LastPosition - 2, head} {
			sub, err := s.SubscribeBatch(t.Context(), "p", &event.SubscribeOptions{Until: until, MaxBatch: 3},
				func(_ context.Context, _ *mainstem.Batch, evs []event.Recorded) error {
					for _, r := range evs {
						if r.Position > until {
							t.Errorf("handled position %d, after %d", r.Position, until)
						}
					}
					return nil
				})
			if err != nil {
				t.Fatal(err)
			}
			<-sub.Done()
			if cp, err := s.Checkpoint(t.Context(), "p"); sub.Err() != nil || err != nil || cp.Position != until {
				t.Errorf("until %d: %v; the checkpoint is at %d, %v", until, sub.Err(), cp.Position, err)
			}
		}
		nothing := func(context.Context, *mainstem.Batch, event.Recorded) error { return nil }
		for _, o := range []event.SubscribeOptions{{Until: head + 100}, {Until: 1, Tail: true}} {
			if _, err := s.Subscribe(t.Context(), "q", &o, nothing); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%+v: %v, want Invalid", o, err)
			}
		}
	})
}

// A checkpoint that was moved says nothing of the filter, until the subscription writes it again. Who waits
// meanwhile must not wait for an event that the subscription does not select.
func TestWaitForLearnsTheFilter(t *testing.T) {
	each(t, func(t *testing.T, _ mainstem.Log, s *event.Store) {
		last := mustAppend(t, s, "other-1", some("E", 1)).LastPosition
		if err := s.SetCheckpoint(t.Context(), "p", 0); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		waited := make(chan error, 1)
		go func() { waited <- s.WaitFor(ctx, "p", last) }()
		select {
		case err := <-waited:
			t.Fatalf("the wait has ended before the subscription began: %v", err)
		default:
		}
		sub, err := s.Subscribe(t.Context(), "p", &event.SubscribeOptions{Filter: event.Filter{Category: "order"}},
			func(context.Context, *mainstem.Batch, event.Recorded) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}

// An event that is removed while its subscription does not run is not waited for; one that is still there is.
func TestWaitForRemovedEvents(t *testing.T) {
	before := event.SetWaitAgain(20 * time.Millisecond)
	defer event.SetWaitAgain(before)
	each(t, func(t *testing.T, _ mainstem.Log, s *event.Store) {
		mustAppend(t, s, "order-1", some("E", 2))
		last := mustAppend(t, s, "order-2", some("E", 1)).LastPosition
		if err := s.SetCheckpoint(t.Context(), "p", 0); err != nil {
			t.Fatal(err)
		}
		waited := make(chan error, 1)
		go func() { waited <- s.WaitFor(within(t), "p", last) }()
		if err := s.Truncate(t.Context(), "order-1", 3); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-waited:
			t.Fatalf("the wait has ended with %v, and an event is there", err)
		case <-time.After(60 * time.Millisecond): // however long, it may not end
		}
		if err := s.Truncate(t.Context(), "order-2", 2); err != nil {
			t.Fatal(err)
		}
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}

// A checkpoint is moved from where it was read, and an event put aside, in one commit.
func TestCheckpointIsMovedOnCondition(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		a := mustAppend(t, s, "order-1", some("E", 2))
		if err := s.SetCheckpoint(t.Context(), "p", 0); err != nil {
			t.Fatal(err)
		}
		cp, err := s.Checkpoint(t.Context(), "p")
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []error{nil, mainstem.ErrConflict} {
			b := mainstem.NewBatch()
			s.MoveCheckpointTo(b, cp, a.FirstPosition)
			s.ParkTo(b, event.Parked{Subscription: "p", Stream: "order-1", Version: 1, Position: a.FirstPosition, Attempts: i + 1, Reason: "why"})
			if _, err := log.Commit(t.Context(), b); !errors.Is(err, want) {
				t.Errorf("move %d: %v, want %v", i, err, want)
			}
		}
		now, err := s.Checkpoint(t.Context(), "p")
		if err != nil || now.Position != a.FirstPosition || now.Revision <= cp.Revision {
			t.Errorf("moved from %+v to %+v, %v", cp, now, err)
		}
		if err := s.MoveCheckpoint(t.Context(), cp, 0); !errors.Is(err, mainstem.ErrConflict) {
			t.Errorf("move what has moved: %v, want Conflict", err)
		}
		if err := s.MoveCheckpoint(t.Context(), now, a.LastPosition); err != nil {
			t.Error(err)
		}
		if err := s.Park(t.Context(), event.Parked{Subscription: "\n"}); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("park for a subscription without a name: %v, want Invalid", err)
		}
		for p, err := range s.Parked(t.Context(), "p") {
			if err != nil || p.Attempts != 1 || p.Reason != "why" || p.Version != 1 {
				t.Errorf("parked %+v, %v", p, err)
			}
		}
	})
}

func mustAppend(t *testing.T, s *event.Store, stream string, evs []event.Event) event.Appended {
	t.Helper()
	a, err := s.Append(t.Context(), stream, event.AnyVersion, evs)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Many events whose commit conflicts are handled in fewer, rather than again and again.
func TestConflictsSplitCommits(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		mustAppend(t, s, "order-1", some("E", 200))
		large, handled := 0, 0
		head, err := log.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last := mainstem.Version(0)
		sub, err := s.SubscribeBatch(t.Context(), "p", &event.SubscribeOptions{Conflicts: 1000, Until: head},
			func(_ context.Context, b *mainstem.Batch, evs []event.Recorded) error {
				if len(evs) > 4 {
					large++
					b.IfVersion(s.Space(), []byte("order-1"), 1) // it is at 200
					return nil
				}
				for _, r := range evs {
					if r.Version != last+1 {
						t.Errorf("version %d after %d", r.Version, last)
					}
					last = r.Version
					handled++
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		<-sub.Done()
		if sub.Err() != nil || handled != 200 {
			t.Errorf("%d events handled, %v", handled, sub.Err())
		}
		if large > 300 {
			t.Errorf("%d commits of more than 4 events were tried", large)
		}
	})
}
