package claims_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/claims"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// each runs body on every engine, with a subscription to the category order of a store that has
// n events of it, one to a stream.
func each(t *testing.T, n int, body func(t *testing.T, s *claims.Subscription, positions []mainstem.Position)) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		store, err := event.Open(log, "shop", nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := claims.Open(store, "mailer")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Info(t.Context()); !errors.Is(err, mainstem.ErrNotFound) {
			t.Fatalf("before it is made: %v", err)
		}
		must(t, s.Put(t.Context(), claims.Config{Filter: event.Filter{Category: "order"}, Strategy: claims.RoundRobin, Timeout: time.Minute, MaxRetry: 3, Buffer: 4}))
		var positions []mainstem.Position
		for i := range n {
			for _, stream := range []string{fmt.Sprintf("order-%d", i), "user-1"} {
				w, err := store.Append(t.Context(), stream, event.AnyVersion, []event.Event{{Type: "Placed"}})
				must(t, err)
				if stream != "user-1" {
					positions = append(positions, w.LastPosition)
				}
			}
		}
		body(t, s, positions)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// claim returns the positions that a consumer gets.
func claim(t *testing.T, s *claims.Subscription, n int) (got []mainstem.Position) {
	t.Helper()
	out, err := s.Claim(t.Context(), "a", n, 0)
	must(t, err)
	for i := range out {
		got = append(got, out[i].Position)
	}
	return got
}

// parked returns the positions of the parked events.
func parked(t *testing.T, s *claims.Subscription) (got []mainstem.Position) {
	t.Helper()
	for p, err := range s.Parked(t.Context()) {
		must(t, err)
		got = append(got, p.Position)
	}
	return got
}

func wantPositions(t *testing.T, what string, got, want []mainstem.Position) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func wantLag(t *testing.T, s *claims.Subscription, want int) {
	t.Helper()
	in, err := s.Info(t.Context())
	must(t, err)
	if n, err := s.Lag(t.Context(), &in, 1000); err != nil || n != want {
		t.Errorf("lag %d, %v; want %d", n, err, want)
	}
	if n, err := s.Lag(t.Context(), &in, 1); err != nil || n != min(want, 1) {
		t.Errorf("lag up to 1: %d, %v", n, err)
	}
}

func TestSkippedEventsAreParkedAndRetried(t *testing.T) {
	each(t, 6, func(t *testing.T, s *claims.Subscription, at []mainstem.Position) {
		wantLag(t, s, 6)
		next, err := s.Next(t.Context())
		if must(t, err); next.Position != at[0] || next.Stream != "order-0" || next.Version != 1 {
			t.Errorf("the next is %+v", next)
		}
		must(t, s.Skip(t.Context(), at[0], "skipped"))
		wantPositions(t, "parked", parked(t, s), at[:1])
		if err := s.Skip(t.Context(), at[0], "again"); !errors.Is(err, mainstem.ErrConflict) {
			t.Errorf("skipping what is not the next: %v", err)
		}
		// One that a consumer has: its answer counts for nothing.
		out, err := s.Claim(t.Context(), "a", 1, 0)
		if must(t, err); len(out) != 1 || out[0].Position != at[1] {
			t.Fatalf("claimed %v", out)
		}
		must(t, s.Skip(t.Context(), at[1], "skipped"))
		_, err = s.Change(t.Context(), func(_ *mainstem.Batch, state *claims.State) error {
			if ended, stale := state.Resolve([]claims.Token{out[0].Token}); len(ended)+len(stale) > 0 {
				t.Errorf("the answer of the consumer: ended %v, stale %v", ended, stale)
			}
			return nil
		})
		must(t, err)
		wantPositions(t, "parked", parked(t, s), at[:2])
		wantLag(t, s, 4)
		if n, left, err := s.Retry(t.Context(), at[1]); err != nil || n != 1 || left {
			t.Errorf("retried %d, %v, %v", n, left, err)
		}
		wantPositions(t, "claimed", claim(t, s, 10), at[1:5]) // the buffer holds 4
		if n, left, err := s.Retry(t.Context()); err != nil || n != 0 || !left {
			t.Errorf("retried beside a full buffer: %d, %v, %v", n, left, err)
		}
		if n, err := s.Drop(t.Context(), at[3]); err != nil || n != 0 {
			t.Errorf("dropped %d that are not parked, %v", n, err)
		}
		if n, err := s.Drop(t.Context()); err != nil || n != 1 {
			t.Errorf("dropped %d, %v", n, err)
		}
		wantPositions(t, "parked", parked(t, s), nil)
	})
}

func TestResetBeginsAnew(t *testing.T) {
	each(t, 4, func(t *testing.T, s *claims.Subscription, at []mainstem.Position) {
		out, err := s.Claim(t.Context(), "a", 3, 0)
		if must(t, err); len(out) != 3 {
			t.Fatalf("claimed %v", out)
		}
		must(t, s.Reset(t.Context(), at[1]))
		_, err = s.Change(t.Context(), func(_ *mainstem.Batch, state *claims.State) error {
			if _, stale := state.Resolve([]claims.Token{out[2].Token}); len(stale) != 1 {
				t.Error("a token from before the reset counts")
			}
			return nil
		})
		must(t, err)
		wantLag(t, s, 2)
		wantPositions(t, "claimed", claim(t, s, 10), at[2:])
		must(t, s.Reset(t.Context(), at[3]))
		if _, err := s.Next(t.Context()); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("the next where all are done: %v", err)
		}
		if err := s.Skip(t.Context(), at[3], ""); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("skipping where all are done: %v", err)
		}
	})
}

// park claims all events and parks the one at a position.
func park(t *testing.T, s *claims.Subscription, at mainstem.Position) {
	t.Helper()
	out, err := s.Claim(t.Context(), "a", 100, 0)
	must(t, err)
	i := slices.IndexFunc(out, func(c claims.Claimed) bool { return c.Position == at })
	if i < 0 {
		t.Fatalf("claimed %v, without position %d", out, at)
	}
	_, err = s.Change(t.Context(), func(b *mainstem.Batch, state *claims.State) error {
		ended, _ := state.Resolve([]claims.Token{out[i].Token})
		s.Park(b, ended, "a test", time.Now())
		return nil
	})
	must(t, err)
	wantPositions(t, "parked", parked(t, s), []mainstem.Position{at})
}

// claimAndAck claims all events, expects their positions, and confirms them, so that no event is
// left.
func claimAndAck(t *testing.T, s *claims.Subscription, want []mainstem.Position) {
	t.Helper()
	out, err := s.Claim(t.Context(), "a", 100, 0)
	must(t, err)
	var got []mainstem.Position
	var tokens []claims.Token
	for i := range out {
		got, tokens = append(got, out[i].Position), append(tokens, out[i].Token)
	}
	wantPositions(t, "claimed", got, want)
	state, err := s.Change(t.Context(), func(_ *mainstem.Batch, state *claims.State) error {
		if ended, stale := state.Resolve(tokens); len(ended) != len(tokens) {
			t.Errorf("%d of %d claims were confirmed; stale are %v", len(ended), len(tokens), stale)
		}
		return nil
	})
	if must(t, err); len(state.Entries) > 0 {
		t.Errorf("the entries %+v are left", state.Entries)
	}
	wantPositions(t, "claimed afterwards", claim(t, s, 100), nil)
}

// After a reset, the events after the position are read again. One of them that is parked and
// retried is claimed once.
func TestRetryAfterAReset(t *testing.T) {
	t.Run("before it is read", func(t *testing.T) {
		each(t, 4, func(t *testing.T, s *claims.Subscription, at []mainstem.Position) {
			park(t, s, at[2])
			must(t, s.Reset(t.Context(), at[0]))
			if n, left, err := s.Retry(t.Context()); err != nil || n != 1 || left {
				t.Errorf("retried %d, %v, %v", n, left, err)
			}
			wantPositions(t, "parked", parked(t, s), nil)
			claimAndAck(t, s, at[1:])
		})
	})
	t.Run("after it is read", func(t *testing.T) {
		each(t, 4, func(t *testing.T, s *claims.Subscription, at []mainstem.Position) {
			park(t, s, at[2])
			must(t, s.Reset(t.Context(), at[1]))
			if next, err := s.Next(t.Context()); err != nil || next.Position != at[2] {
				t.Errorf("the next is %+v, %v", next, err)
			}
			wantPositions(t, "claimed", claim(t, s, 1), at[2:3])
			if n, left, err := s.Retry(t.Context(), at[2]); err != nil || n != 1 || left {
				t.Errorf("retried %d, %v, %v", n, left, err)
			}
			wantPositions(t, "parked", parked(t, s), nil)
			wantPositions(t, "claimed", claim(t, s, 100), at[3:])
		})
	})
	t.Run("not selected any more", func(t *testing.T) {
		each(t, 4, func(t *testing.T, s *claims.Subscription, at []mainstem.Position) {
			park(t, s, at[2])
			must(t, s.Put(t.Context(), claims.Config{Filter: event.Filter{Streams: []string{"order-1", "order-3"}}, Strategy: claims.RoundRobin, Timeout: time.Minute, Buffer: 4}))
			must(t, s.Reset(t.Context(), at[0]))
			if n, left, err := s.Retry(t.Context()); err != nil || n != 0 || left {
				t.Errorf("retried %d, %v, %v", n, left, err)
			}
			claimAndAck(t, s, []mainstem.Position{at[1], at[3]})
			if n, left, err := s.Retry(t.Context()); err != nil || n != 1 || left {
				t.Errorf("retried %d after all was read, %v, %v", n, left, err)
			}
			claimAndAck(t, s, at[2:3])
		})
	})
}

func TestNamesAndDeletion(t *testing.T) {
	each(t, 1, func(t *testing.T, s *claims.Subscription, at []mainstem.Position) {
		names := func() (got []string) {
			for name, err := range claims.Names(t.Context(), s.Store()) {
				must(t, err)
				got = append(got, name)
			}
			return got
		}
		if got := names(); !slices.Equal(got, []string{"mailer"}) {
			t.Errorf("names %v", got)
		}
		must(t, s.Skip(t.Context(), at[0], ""))
		must(t, s.Delete(t.Context()))
		if got := names(); got != nil {
			t.Errorf("names %v", got)
		}
		wantPositions(t, "parked", parked(t, s), nil)
		if err := s.Delete(t.Context()); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("deleting again: %v", err)
		}
		if _, err := claims.Open(s.Store(), "no spaces"); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("a bad name: %v", err)
		}
	})
}

// TestAStoppedSubscriptionGoesOn after its bad event was skipped.
func TestAStoppedSubscriptionGoesOn(t *testing.T) {
	each(t, 2, func(t *testing.T, s *claims.Subscription, at []mainstem.Position) {
		_, err := s.Change(t.Context(), func(_ *mainstem.Batch, state *claims.State) error {
			state.Stopped = "by a consumer"
			return nil
		})
		must(t, err)
		var stopped *claims.StoppedError
		if _, err := s.Claim(t.Context(), "a", 1, 0); !errors.As(err, &stopped) || !errors.Is(err, mainstem.ErrUnavailable) {
			t.Errorf("claiming: %v", err)
		}
		must(t, s.Skip(t.Context(), at[0], "it is bad"))
		wantPositions(t, "claimed", claim(t, s, 10), at[1:])
	})
}
