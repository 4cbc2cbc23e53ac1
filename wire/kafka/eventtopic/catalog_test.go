package eventtopic_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/feedtopic"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/eventtopic"
)

func TestNames(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := open(t, log)
		if got := names(t, c); len(got) != 0 {
			t.Errorf("an empty log has %q", got)
		}
		write(t, store(t, log, "a"), "b-1", note("b of a"))
		write(t, store(t, log, "a"), "c.d-1", note("c.d of a"))
		write(t, store(t, log, "a"), "no hyphen", note(""))
		write(t, store(t, log, "a"), "bad name-1", note(""))
		write(t, store(t, log, "not/a/topic"), "x-1", note(""))
		want := []string{"event.a", "event.a.b", "event.a.c.d"}
		if got := names(t, c); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if got := all(t, find(t, c, "event.a.c.d"), 0, 1<<20); string(got[0].Value) != "c.d of a" {
			t.Errorf("event.a.c.d begins with %q", got[0].Value)
		}
		// A store takes the name from a category, a longer store's category from a shorter one's.
		write(t, store(t, log, "a.b"), "x-1", note("a.b"))
		write(t, store(t, log, "a.c"), "d-1", note("d of a.c"))
		want = []string{"event.a", "event.a.b", "event.a.b.x", "event.a.c", "event.a.c.d"}
		if got := names(t, c); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		for name, text := range map[string]string{"event.a.b": "a.b", "event.a.c.d": "d of a.c"} {
			if got := all(t, find(t, c, name), 0, 1<<20); len(got) != 1 || string(got[0].Value) != text {
				t.Errorf("%s has %q, want %q", name, got[0].Value, text)
			}
		}
		for _, name := range []string{"event", "event.", "events.a", "event.a.", "event..a", "event.z", "event.a.z", "event.a.b-1", "a", "", "event.not/a/topic"} {
			if tp, err := c.Topic(t.Context(), name); !errors.Is(err, mainstem.ErrNotFound) {
				t.Errorf("%q is %v, %v", name, tp, err)
			}
		}
	})
}

func TestIDs(t *testing.T) {
	log := testengines.Memory(t)
	s := store(t, log, "s")
	write(t, s, "a-1", note(""))
	c := open(t, log)
	whole, category := find(t, c, "event.s"), find(t, c, "event.s.a")
	if whole.ID() == category.ID() || !feedtopic.IsID(whole.ID()) || !feedtopic.IsID(category.ID()) {
		t.Errorf("IDs %v and %v", whole.ID(), category.ID())
	}
	for _, c := range []*eventtopic.Catalog{c, open(t, log)} {
		for _, tp := range []partition.Shown{whole, category} {
			if got, err := c.ByID(t.Context(), tp.ID()); err != nil || got.Name() != tp.Name() || got.ID() != tp.ID() {
				t.Errorf("%s by ID: %v", tp.Name(), err)
			}
		}
	}
	if err := s.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone := func() {
		t.Helper()
		for _, tp := range []partition.Shown{whole, category} {
			if _, err := c.ByID(t.Context(), tp.ID()); !errors.Is(err, mainstem.ErrNotFound) {
				t.Errorf("the ID of a dropped store: %v", err)
			}
		}
	}
	gone()
	write(t, s, "a-1", note(""))
	if now := find(t, c, "event.s"); now.ID() == whole.ID() {
		t.Error("a store made anew has the old ID")
	}
	gone()
	random, err := topic.Open(log, &topic.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer random.Close()
	other, err := random.Create(t.Context(), "other", topic.Spec{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ByID(t.Context(), other.ID()); feedtopic.IsID(other.ID()) || !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("the ID of a topic: %v", err)
	}
}

// TestIDIsForEver: IDs must not change, because clients and stored offsets have them.
func TestIDIsForEver(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)
	for category, want := range map[string]string{"": "IiO2_OkihNaw2yWQNNNurw", "order": "lQyLrs16jpG9VD-yp8H9mg"} {
		if got := eventtopic.IDOf("shop", created, category).String(); got != want {
			t.Errorf("category %q: %s, want %s", category, got, want)
		}
	}
}

func TestADeletedCategoryStays(t *testing.T) {
	log := testengines.Memory(t)
	s := store(t, log, "s")
	write(t, s, "a-1", note(""))
	if err := s.Delete(t.Context(), "a-1", event.AnyVersion); err != nil {
		t.Fatal(err)
	}
	c := open(t, log)
	if got := names(t, c); !slices.Equal(got, []string{"event.s", "event.s.a"}) {
		t.Errorf("%q", got)
	}
	if got := all(t, find(t, c, "event.s.a"), 0, 1<<20); len(got) != 0 {
		t.Errorf("%d records", len(got))
	}
}

// TestManyCategoriesAreNotListed: a listing of a million names is of no use, and finding them
// would cost much.
func TestManyCategoriesAreNotListed(t *testing.T) {
	log := testengines.Memory(t)
	c := open(t, log)
	ids, plain := store(t, log, "ids"), store(t, log, "plain")
	fill := func(s *event.Store, from, to int, format string) {
		b := mainstem.NewBatch()
		for i := from; i < to; i++ {
			s.AppendTo(b, fmt.Sprintf(format, i), event.AnyVersion, []event.Event{note("")})
		}
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	fill(ids, 0, eventtopic.MaxCategories, "c%d-1")
	if got := names(t, c); len(got) != 1+eventtopic.MaxCategories {
		t.Errorf("%d topics, want %d", len(got), 1+eventtopic.MaxCategories)
	}
	fill(ids, eventtopic.MaxCategories, eventtopic.MaxCategories+1, "c%d-1")
	fill(plain, 0, 3000, "%d")
	fill(plain, 0, 1, "z-%d")
	if got := names(t, c); !slices.Equal(got, []string{"event.ids", "event.plain"}) {
		t.Errorf("%d topics, want the stores alone", len(got))
	}
	tp := find(t, c, "event.plain.z")
	if got, err := c.ByID(t.Context(), tp.ID()); err != nil || got != tp {
		t.Errorf("a category that is not listed, by ID: %v", err)
	}
	if got := all(t, tp, 0, 1<<20); len(got) != 1 {
		t.Errorf("%d records", len(got))
	}
}
