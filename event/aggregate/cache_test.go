package aggregate_test

import (
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
)

// Metadata that the function of one Update sets are not those of the next Update, which takes the
// aggregate from the cache.
func TestCacheKeepsNoMetadata(t *testing.T) {
	f := newFixture(t)
	r := f.accounts(t, &aggregate.Options{Cache: 1})
	_, err := r.UpdateOrNew(t.Context(), "1", func(a *Account) error {
		a.SetMetadata(event.Metadata{UserID: "first"})
		return a.Deposit(1)
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := event.WithMetadata(t.Context(), event.Metadata{UserID: "second"})
	if _, err := r.Update(ctx, "1", deposit(1)); err != nil {
		t.Fatal(err)
	}
	events, err := f.store.Load(t.Context(), "account-1", nil)
	if err != nil || len(events) != 2 {
		t.Fatalf("%d events, %v: want 2", len(events), err)
	}
	for i, want := range []string{"first", "second"} {
		if got := events[i].Metadata.UserID; got != want {
			t.Errorf("event %d is of user %q, want %q", i, got, want)
		}
	}
}

// An aggregate without events is not cached, so that Update does not find it.
func TestCacheKeepsNothingNew(t *testing.T) {
	f := newFixture(t)
	r := f.accounts(t, &aggregate.Options{Cache: 1})
	nothing := func(*Account) error { return nil }
	refused := func() {
		t.Helper()
		if _, err := r.UpdateOrNew(t.Context(), "1", nothing); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Update(t.Context(), "1", deposit(1)); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("Update of an aggregate without events: %v, want NotFound", err)
		}
	}
	refused()
	if _, err := r.UpdateOrNew(t.Context(), "1", deposit(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Update(t.Context(), "1", deposit(1)); err != nil {
		t.Errorf("Update after the first event: %v", err)
	}
	withBalance(t, r, "1", 2, 2)
	if err := f.store.Delete(t.Context(), "account-1", event.AnyVersion); err != nil {
		t.Fatal(err)
	}
	refused()
}
