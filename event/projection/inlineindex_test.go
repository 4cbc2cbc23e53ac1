package projection_test

import (
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// Creating and rebuilding an index, and switching on and rebuilding projections, change one record
// while events are appended: each event is in the index and in the rows.
func TestInlineBesideAnIndex(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		f := newFixtureOn(t, log)
		s := f.inline(nil, f.projection("totals", 1, nil))
		f.mustPayInline(s, 5)
		other := f.inline(nil, f.projection("totals", 1, nil))
		var wg sync.WaitGroup
		for g, s := range []*projection.InlineStore{s, other} {
			wg.Go(func() {
				for n := range 40 {
					if err := f.payInline(s, g, "ann", n); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			if err := f.store.CreateIndex(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if err := f.store.Retag(t.Context(), func(event.Recorded) []string { return []string{"paid"} }, nil); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for range 2 {
				if err := s.Rebuild(t.Context(), "totals"); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Wait()
		f.check(1)
		byType := 0
		for _, err := range f.store.Query(t.Context(), event.Query{{Types: []string{f.event("ann", 1).Type}}}, nil) {
			if err != nil {
				t.Fatal(err)
			}
			byType++
		}
		if byType != 85 {
			t.Errorf("the index has %d events, want 85", byType)
		}
		if err := projection.RemoveInline(t.Context(), f.store, "totals"); err != nil {
			t.Fatal(err)
		}
		if _, err := f.store.Append(t.Context(), "order-1", event.AnyVersion, []event.Event{f.event("ann", 1)}); err != nil {
			t.Error(err)
		}
	})
}

// A set in the old form is converted, and its projections continue.
func TestInlineSetOfTheOldForm(t *testing.T) {
	f := newFixture(t)
	p := f.projection("totals", 1, nil)
	f.mustPayInline(f.inline(nil, p), 5)
	b := mainstem.NewBatch() // as an earlier version has left it
	b.Delete("event.tag/shop", []byte("index"))
	b.Ensure("event.inline/shop", mainstem.Policy{History: 1, NoFeed: true})
	b.Put("event.inline/shop", []byte("set"), []byte(`[{"name":"totals","version":1,"state":"on"}]`))
	if _, err := f.log.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	s := f.inline(nil, p)
	f.mustPayInline(s, 5)
	f.check(1)
	if _, err := f.log.Get(t.Context(), "event.inline/shop", []byte("set")); err == nil {
		t.Error("the old form is still there")
	}
}
