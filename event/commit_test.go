package event_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// What a handler wrote is committed by SubscribeOptions.Commit, again as long as the outcome is not known. The checkpoint
// without it, and parked events, are committed by the log.
func TestSubscriptionCommitsByOption(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 2))
		write(t, s, "order-1", 2, some("Bad", 1))
		last := write(t, s, "order-1", 3, some("A", 1)).LastPosition
		commits, written := 0, 0
		commit := func(ctx context.Context, b *mainstem.Batch) (r mainstem.Receipt, err error) {
			switch commits++; commits % 4 {
			case 1:
				return r, &mainstem.Error{Kind: mainstem.KindUnavailable, Outcome: mainstem.NotWritten}
			case 2: // committed, and the answer is lost
				if _, err := log.Commit(ctx, b); err != nil {
					return r, err
				}
				written++
				return r, &mainstem.Error{Kind: mainstem.KindUnavailable, Outcome: mainstem.Unknown}
			}
			if r, err = log.Commit(ctx, b); err == nil {
				written++
			}
			return r, err
		}
		count := counter(log)
		sub := subscribe(t, s, quick(event.SubscribeOptions{Commit: commit, Attempts: 2, OnPoison: event.ParkPoison}), func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
			if ev.Type == "Bad" {
				return errors.New("bad")
			}
			if ev.Version == 4 {
				return nil // the counter would miss the parked event
			}
			return count(ctx, b, ev)
		})
		waitFor(t, sub, last)
		if err := sub.Close(); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "commits that were written by it", written, 3)
		wantEqual(t, "parked", len(collect(t, s.Parked(t.Context(), "count"))), 1)
	})
}
