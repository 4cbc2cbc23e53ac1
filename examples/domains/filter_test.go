package domains_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem/event"
)

// appendAll appends one event for each entry "STREAM TYPE", such as "order-1 Placed".
func appendAll(t *testing.T, s *event.Store, events ...string) {
	t.Helper()
	for _, line := range events {
		var stream, typ string
		if _, err := fmt.Sscan(line, &stream, &typ); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(t.Context(), stream, event.AnyVersion, []event.Event{{Type: typ}}); err != nil {
			t.Fatal(err)
		}
	}
}

// The feed of a store can be filtered by type, stream and category; all given conditions must hold.
func TestFeedFilter(t *testing.T) {
	s := store(t, "shop")
	appendAll(t, s, "order-1 Placed", "orders-1 Placed", "invoice-1 Issued", "order-2 Placed", "order-1 Shipped", "invoice-1 Paid")
	for _, c := range []struct {
		what   string
		filter event.Filter
		want   []string
	}{
		{"all", event.Filter{}, []string{"order-1 Placed", "orders-1 Placed", "invoice-1 Issued", "order-2 Placed", "order-1 Shipped", "invoice-1 Paid"}},
		{"a category, not those with longer names", event.Filter{Category: "order"}, []string{"order-1 Placed", "order-2 Placed", "order-1 Shipped"}},
		{"either of two types", event.Filter{Types: []string{"Shipped", "Paid"}}, []string{"order-1 Shipped", "invoice-1 Paid"}},
		{"a category and a type", event.Filter{Category: "order", Types: []string{"Placed"}}, []string{"order-1 Placed", "order-2 Placed"}},
		{"streams", event.Filter{Streams: []string{"order-1"}}, []string{"order-1 Placed", "order-1 Shipped"}},
	} {
		var got []string
		for ev, err := range s.Feed(t.Context(), &event.FeedOptions{Filter: c.filter}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ev.Stream+" "+ev.Type)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}

	// Pages: the cursor is the position of the last event that was read.
	first, err := s.Page(t.Context(), &event.FeedOptions{Filter: event.Filter{Category: "order"}, Limit: 2})
	if err != nil || len(first) != 2 {
		t.Fatalf("%d events, %v", len(first), err)
	}
	rest, err := s.Page(t.Context(), &event.FeedOptions{Filter: event.Filter{Category: "order"}, Limit: 2, After: first[1].Position})
	if err != nil || len(rest) != 1 || rest[0].Type != "Shipped" {
		t.Errorf("%+v, %v", rest, err)
	}
}
