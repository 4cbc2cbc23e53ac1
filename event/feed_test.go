package event_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func at(evs []event.Recorded) []string {
	out := []string{}
	for _, ev := range evs {
		out = append(out, fmt.Sprintf("%s@%d", ev.Stream, ev.Version))
	}
	return out
}

func TestFeedSelects(t *testing.T) {
	type n = []string
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 2))
		second := write(t, s, "user-1", event.NoStream, some("B", 1))
		write(t, s, "order", event.NoStream, some("A", 1))
		write(t, s, "orders-1", event.NoStream, some("A", 1))
		write(t, s, "order-2", event.NoStream, some("B", 2))
		do(t, s, func(b *mainstem.Batch) { s.DeleteTo(b, "user-1", 1) })
		do(t, s, func(b *mainstem.Batch) { s.ArchiveTo(b, "orders-1") })
		write(t, open2(t, log), "order-1", event.NoStream, some("A", 1)) // another store
		cases := []struct {
			name string
			o    event.FeedOptions
			want n
		}{
			{"all", event.FeedOptions{}, n{"order-1@1", "order-1@2", "order@1", "order-2@1", "order-2@2"}},
			{"archived too", event.FeedOptions{Filter: event.Filter{Archived: true}}, n{"order-1@1", "order-1@2", "order@1", "orders-1@1", "order-2@1", "order-2@2"}},
			{"deletions too", event.FeedOptions{Filter: event.Filter{Deletions: true}}, n{"order-1@1", "order-1@2", "order@1", "order-2@1", "order-2@2", "user-1@2"}},
			{"after", event.FeedOptions{After: second.LastPosition}, n{"order@1", "order-2@1", "order-2@2"}},
			{"limit", event.FeedOptions{Limit: 3}, n{"order-1@1", "order-1@2", "order@1"}},
			{"category", event.FeedOptions{Filter: event.Filter{Category: "order"}}, n{"order-1@1", "order-1@2", "order-2@1", "order-2@2"}},
			{"category, limit", event.FeedOptions{Filter: event.Filter{Category: "order"}, Limit: 3}, n{"order-1@1", "order-1@2", "order-2@1"}},
			{"types", event.FeedOptions{Filter: event.Filter{Types: n{"B", "C"}}}, n{"order-2@1", "order-2@2"}},
			{"types, category, limit", event.FeedOptions{Filter: event.Filter{Types: n{"A"}, Category: "order"}, Limit: 1}, n{"order-1@1"}},
			{"streams", event.FeedOptions{Filter: event.Filter{Streams: n{"order-2", "order"}}}, n{"order@1", "order-2@1", "order-2@2"}},
			{"one stream", event.FeedOptions{Filter: event.Filter{Streams: n{"order-1"}}}, n{"order-1@1", "order-1@2"}},
			{"streams, category", event.FeedOptions{Filter: event.Filter{Streams: n{"order-2", "order"}, Category: "order"}}, n{"order-2@1", "order-2@2"}},
			{"streams of another category", event.FeedOptions{Filter: event.Filter{Streams: n{"order-2"}, Category: "user"}}, n{}},
			{"no such category", event.FeedOptions{Filter: event.Filter{Category: "none"}}, n{}},
			{"archived category", event.FeedOptions{Filter: event.Filter{Category: "orders", Archived: true}}, n{"orders-1@1"}},
			{"category of which all is archived", event.FeedOptions{Filter: event.Filter{Category: "orders"}}, n{}},
		}
		for _, c := range cases {
			if got := at(collect(t, s.Feed(t.Context(), &c.o))); !slices.Equal(got, c.want) {
				t.Errorf("%s: %q: want %q", c.name, got, c.want)
			}
			page, err := s.Page(t.Context(), &c.o)
			if err != nil || !slices.Equal(at(page), c.want) {
				t.Errorf("%s: page %q, %v: want %q", c.name, at(page), err, c.want)
			}
		}
		for name, o := range map[string]event.FeedOptions{"limit": {Limit: -1}, "category": {Filter: event.Filter{Category: "a-b"}}, "follow": {Follow: true}} {
			if _, err := s.Page(t.Context(), &o); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%s: %v: want Invalid", name, err)
			}
		}
	})
}

func TestPagesFollowEachOther(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		for i := range 30 {
			write(t, s, fmt.Sprintf("order-%d", i%4), event.AnyVersion, some("A", i%5+1))
		}
		all := at(collect(t, s.Feed(t.Context(), nil)))
		for _, limit := range []int{1, 7, 1000} {
			var got []string
			var after mainstem.Position
			for {
				page, err := s.Page(t.Context(), &event.FeedOptions{After: after, Limit: limit})
				if err != nil {
					t.Fatal(err)
				}
				if len(page) == 0 {
					break
				}
				got, after = append(got, at(page)...), page[len(page)-1].Position
			}
			if !slices.Equal(got, all) {
				t.Errorf("pages of %d: %q: want %q", limit, got, all)
			}
		}
		for i := range 1100 {
			write(t, s, "order-many", event.AtVersion(mainstem.Version(i)), some("A", 1))
		}
		page, err := s.Page(t.Context(), nil)
		wantEqual(t, "default page", len(page), event.DefaultPage)
		wantEqual(t, "error", err, nil)
	})
}

// An archived stream that is opened again is in feeds again; one that is archived
// while a feed runs gets no events, so the feed misses none.
func TestFeedFollowsThroughArchiving(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 1))
		do(t, s, func(b *mainstem.Batch) { s.ArchiveTo(b, "order-1") })
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		seen := make(chan string)
		ended := make(chan error, 1)
		go func() {
			for ev, err := range s.Feed(ctx, &event.FeedOptions{Follow: true}) {
				if err != nil {
					ended <- err
					return
				}
				seen <- fmt.Sprintf("%s@%d", ev.Stream, ev.Version)
			}
			ended <- nil
		}()
		write(t, s, "order-2", event.NoStream, some("A", 1))
		wantEqual(t, "first", <-seen, "order-2@1")
		if err := s.Unarchive(t.Context(), "order-1"); err != nil {
			t.Fatal(err)
		}
		write(t, s, "order-1", 1, some("A", 1))
		wantEqual(t, "of the stream that was opened again", <-seen, "order-1@2")
		cancel()
		wantKind(t, <-ended, mainstem.ErrCanceled)
	})
}

// Readers that follow the feed while many write, some of them several streams in
// one batch, see every event exactly once and in order: the acceptance test for what
// a counter column read under concurrent transactions gets wrong.
func TestFeedNeverSkips(t *testing.T) {
	const writers, size = 8, 20
	batches := testkit.Rounds(30)
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		ctx := within(t)
		var wg sync.WaitGroup
		followed := make([][]string, 2)
		for i := range followed {
			wg.Go(func() {
				var last mainstem.Position
				for ev, err := range s.Feed(ctx, &event.FeedOptions{Follow: true, Limit: writers * batches * size}) {
					if err != nil {
						t.Error(err)
						return
					}
					if ev.Position <= last {
						t.Errorf("position %d after %d", ev.Position, last)
					}
					last = ev.Position
					followed[i] = append(followed[i], fmt.Sprintf("%s@%d", ev.Stream, ev.Version))
				}
			})
		}
		paged := []string{}
		wg.Go(func() {
			var after mainstem.Position
			for len(paged) < writers*batches*size && ctx.Err() == nil {
				page, err := s.Page(ctx, &event.FeedOptions{After: after, Limit: 50})
				if err != nil {
					t.Error(err)
					return
				}
				if len(page) > 0 {
					after = page[len(page)-1].Position
					paged = append(paged, at(page)...)
				}
			}
		})
		for w := range writers {
			wg.Go(func() {
				for range batches {
					b := mainstem.NewBatch()
					s.AppendTo(b, fmt.Sprintf("own-%d", w), event.AnyVersion, some("A", size/2))
					s.AppendTo(b, "shared-1", event.AnyVersion, some("B", size/2))
					if _, err := log.Commit(ctx, b); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		want := at(collect(t, s.Feed(t.Context(), nil)))
		if len(want) != writers*batches*size {
			t.Fatalf("the feed has %d events: want %d", len(want), writers*batches*size)
		}
		if !slices.Equal(followed[0], want) || !slices.Equal(followed[1], want) || !slices.Equal(paged, want) {
			t.Fatalf("readers saw %d, %d and %d events, or in another order than the %d there are", len(followed[0]), len(followed[1]), len(paged), len(want))
		}
		next := map[string]mainstem.Version{}
		for _, ev := range collect(t, s.Feed(t.Context(), nil)) {
			if next[ev.Stream]++; ev.Version != next[ev.Stream] {
				t.Fatalf("stream %s: version %d comes where %d should", ev.Stream, ev.Version, next[ev.Stream])
			}
		}
	})
}
