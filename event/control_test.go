package event_test

import (
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// An append depends on one record of the store's metadata, once its handle knows that there is none of an older form.
func TestAppendHasOneConditionOnMetadata(t *testing.T) {
	log := testengines.Memory(t)
	s := open(t, log, nil)
	conditions := func() int {
		b := mainstem.NewBatch()
		s.AppendTo(b, "order-1", event.AnyVersion, []event.Event{small})
		s.AppendTo(b, "order-2", event.AnyVersion, []event.Event{small})
		return len(b.Conditions())
	}
	if got := conditions(); got != 5 { // two on seals, and one more for the older form, of each append
		t.Errorf("before anything was committed: %d conditions", got)
	}
	if _, err := s.Append(t.Context(), "order-1", event.NoStream, []event.Event{small}); err != nil {
		t.Fatal(err)
	}
	if got := conditions(); got != 3 {
		t.Errorf("after an append: %d conditions, want those on two seals and on one record", got)
	}
	if err := s.CreateIndex(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := conditions(); got != 4 { // on the version and on the position of the one record
		t.Errorf("with an index: %d conditions", got)
	}
}

// A set of inline projections in the form in which it was stored first keeps out programs that have not the
// projections, also while an index is made; deletions are not kept out.
func TestInlineSetOfTheOldForm(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		before := open(t, log, nil)
		if _, err := before.Append(ctx, "order-1", event.NoStream, []event.Event{small}); err != nil {
			t.Fatal(err)
		}
		b := mainstem.NewBatch()
		b.Ensure("event.inline/orders", mainstem.Policy{History: 1, NoFeed: true})
		b.Put("event.inline/orders", []byte("set"), []byte(`[{"name":"totals","version":1,"state":"on","since":1}]`))
		if _, err := log.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
		s := open(t, log, nil)
		refused := func(when string) {
			t.Helper()
			b := mainstem.NewBatch()
			s.AppendTo(b, "order-2", event.AnyVersion, []event.Event{small})
			_, inBatch := log.Commit(ctx, b)
			_, atOnce := s.Append(ctx, "order-2", event.AnyVersion, []event.Event{small})
			for _, err := range []error{inBatch, atOnce} {
				var e *event.InlineError
				if !errors.As(err, &e) || len(e.Projections) != 1 || e.Projections[0] != "totals version 1" {
					t.Errorf("%s: %v", when, err)
				}
			}
		}
		refused("at first")
		if err := s.CreateIndex(ctx, nil); err != nil {
			t.Fatal(err)
		}
		refused("with an index")
		if err := s.Delete(ctx, "order-1", event.AnyVersion); err != nil {
			t.Error(err)
		}
	})
}
