package event_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

func names(entries []event.StreamEntry) []string {
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Stream)
	}
	return out
}

func TestStreams(t *testing.T) {
	type n = []string
	cases := []struct {
		name string
		o    event.ListOptions
		want n
	}{
		{"all", event.ListOptions{}, n{"-x", "order-1", "order-10", "order-2", "orders", "orders-7", "user-1"}},
		{"archived too", event.ListOptions{Archived: true}, n{"-x", "order-1", "order-10", "order-2", "order-3", "orders", "orders-7", "user-1"}},
		{"deleted too", event.ListOptions{Deleted: true, Prefix: "u"}, n{"user-1", "user-2"}},
		{"category", event.ListOptions{Category: "order"}, n{"order-1", "order-10", "order-2"}},
		{"category archived", event.ListOptions{Category: "order", Archived: true}, n{"order-1", "order-10", "order-2", "order-3"}},
		{"category, prefix", event.ListOptions{Category: "order", Prefix: "order-1"}, n{"order-1", "order-10"}},
		{"category, short prefix", event.ListOptions{Category: "order", Prefix: "or"}, n{"order-1", "order-10", "order-2"}},
		{"category, other prefix", event.ListOptions{Category: "order", Prefix: "user"}, n{}},
		{"prefix", event.ListOptions{Prefix: "orders"}, n{"orders", "orders-7"}},
		{"limit", event.ListOptions{Limit: 2}, n{"-x", "order-1"}},
		{"after", event.ListOptions{After: "order-1", Limit: 2}, n{"order-10", "order-2"}},
		{"after what is not there", event.ListOptions{After: "order-11", Limit: 2}, n{"order-2", "orders"}},
		{"reverse", event.ListOptions{Reverse: true, Limit: 3}, n{"user-1", "orders-7", "orders"}},
		{"reverse, after", event.ListOptions{Reverse: true, After: "orders", Limit: 2, Archived: true}, n{"order-3", "order-2"}},
		{"reverse category", event.ListOptions{Reverse: true, Category: "order"}, n{"order-2", "order-10", "order-1"}},
		{"no such category", event.ListOptions{Category: "none"}, n{}},
	}
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		for _, stream := range []string{"user-1", "order-10", "order-2", "order-1", "orders", "orders-7", "-x", "order-3", "user-2", "user-3"} {
			write(t, s, stream, event.NoStream, some("A", 2))
		}
		do(t, s, func(b *mainstem.Batch) {
			s.ArchiveTo(b, "order-3")
			s.DeleteTo(b, "user-2", event.AnyVersion)
			s.ForgetTo(b, "user-3")
		})
		do(t, s, func(b *mainstem.Batch) { s.TombstoneTo(b, "never-1", event.AnyVersion) })
		for _, c := range cases {
			if got := names(collect(t, s.Streams(t.Context(), &c.o))); !slices.Equal(got, c.want) {
				t.Errorf("%s: %q: want %q", c.name, got, c.want)
			}
			if count, err := s.CountStreams(t.Context(), &c.o); err != nil || count != len(c.want) {
				t.Errorf("%s: count %d, %v: want %d", c.name, count, err, len(c.want))
			}
		}
		if got := collect(t, s.Categories(t.Context())); !slices.Equal(got, n{"order", "orders", "user"}) {
			t.Errorf("categories %q", got)
		}
		for name, o := range map[string]event.ListOptions{"limit": {Limit: -1}, "category": {Category: "a-b"}} {
			if _, err := s.CountStreams(t.Context(), &o); !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%s: %v: want Invalid", name, err)
			}
		}
		e := collect(t, s.Streams(t.Context(), &event.ListOptions{Prefix: "order-3", Archived: true}))[0]
		in, err := s.StreamInfo(t.Context(), "order-3")
		if err != nil || !e.Archived || e.Deleted || e.Version != 2 || e.Position != in.Position || !e.Updated.Equal(in.Updated) {
			t.Errorf("entry %+v, info %+v, %v", e, in, err)
		}
		e = collect(t, s.Streams(t.Context(), &event.ListOptions{Prefix: "user-2", Deleted: true}))[0]
		if !e.Deleted || e.Version != 3 {
			t.Errorf("entry of a deleted stream %+v", e)
		}
	})
}

func TestStreamID(t *testing.T) {
	cases := map[string]event.StreamID{
		"order-42":     {Category: "order", ID: "42"},
		"order-2024-7": {Category: "order", ID: "2024-7"},
		"order-":       {Category: "order"},
		"order":        {ID: "order"},
		"-42":          {ID: "-42"},
		"":             {},
	}
	for name, want := range cases {
		wantEqual(t, name, event.ParseStreamID(name), want)
		wantEqual(t, "name", want.String(), name)
	}
}
