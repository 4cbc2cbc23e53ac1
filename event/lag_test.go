package event_test

import (
	"context"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// The lag counts an event from the moment it is appended, whether or not the feed has delivered it. Events that are
// not selected do not count, unless the checkpoint is moved back before selected ones.
func TestLagOfWhatIsAppended(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		mustAppend(t, s, "order-1", some("E", 1))
		handle := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		sub, err := s.Subscribe(ctx, "p", &event.SubscribeOptions{Filter: event.Filter{Category: "order"}, Backoff: time.Millisecond},
			func(ctx context.Context, _ *mainstem.Batch, _ event.Recorded) error {
				select {
				case <-handle:
				case <-ctx.Done():
				}
				return ctx.Err()
			})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		defer cancel()
		lag := func() uint64 {
			n, err := sub.Lag(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		handle <- struct{}{}
		<-sub.CaughtUp()
		for range testengines.Rounds(log, 30) {
			last := mustAppend(t, s, "order-1", some("E", 1)).LastPosition
			if lag() == 0 {
				t.Error("the lag is 0 right after an append")
			}
			handle <- struct{}{}
			if err := sub.WaitFor(within(t), last); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "the subscription to know of its checkpoint", func() bool { return sub.Position() >= last })
			mustAppend(t, s, "other-1", some("E", 1))
			if n := lag(); n != 0 {
				t.Errorf("the lag is %d, and nothing is selected", n)
			}
		}
		if err := s.SetCheckpoint(t.Context(), "p", 0); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, s, "order-1", some("E", 1)) // its commit finds that the checkpoint was moved
		handle <- struct{}{}
		testkit.Eventually(t, "the subscription to go back", func() bool { return sub.Position() == 0 })
		if lag() == 0 {
			t.Error("the lag is 0 after the checkpoint was moved back")
		}
		close(handle)
	})
}
