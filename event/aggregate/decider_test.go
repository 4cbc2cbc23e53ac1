package aggregate_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
)

func (w *wrapped) Read(ctx context.Context, space string, key []byte, v mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	w.reads.Add(1)
	return w.Log.Read(ctx, space, key, v)
}

func TestDecider(t *testing.T) { onEach(t, testDecider) }

func testDecider(t *testing.T, f *fixture) {
	d := f.deciders(t, nil)
	ctx := event.WithMetadata(t.Context(), event.Metadata{TenantID: "acme"})
	if a, v, err := d.Load(ctx, "1"); err != nil || v != 0 || a.Balance != 0 {
		t.Fatal(a, v, err)
	}
	if done, err := d.Handle(ctx, "1", 10); err != nil || done.Last != 1 {
		t.Fatal(done, err)
	}
	if done, err := d.Handle(ctx, "1", 0); err != nil || done.First != 0 || done.Last != 1 {
		t.Fatalf("nothing happened: %+v, %v", done, err)
	}
	if _, err := d.Handle(ctx, "1", -11); !errors.Is(err, errPoor) {
		t.Fatal(err)
	}
	b := mainstem.NewBatch()
	if err := d.HandleTo(ctx, b, "1", 5); err != nil {
		t.Fatal(err)
	}
	if _, err := f.log.Commit(ctx, b); err != nil {
		t.Fatal(err)
	}
	if _, err := f.log.Commit(ctx, b); !errors.Is(err, mainstem.ErrConflict) {
		t.Fatalf("one decision was committed twice: %v", err)
	}
	if err := d.HandleTo(ctx, b, "1", 0); !errors.Is(err, mainstem.ErrInvalid) {
		t.Fatalf("a second decision in one batch: %v", err)
	}
	b.Reset()
	if err := d.HandleTo(ctx, b, "1", 0); err != nil || len(b.Conditions()) == 0 {
		t.Fatalf("a decision without events demands nothing: %v", err)
	}
	if done, err := d.Handle(ctx, "1", -15); err != nil || done.First != 3 || done.Last != 4 {
		t.Fatal(done, err)
	}
	if _, err := d.Handle(ctx, "1", 1); !errors.Is(err, aggregate.ErrTerminal) {
		t.Fatalf("after the end: %v", err)
	}
	if err := d.HandleTo(ctx, b, "1", 1); !errors.Is(err, aggregate.ErrTerminal) {
		t.Fatalf("after the end, into a batch: %v", err)
	}
	evs, err := f.store.Load(ctx, "account-1", nil)
	if err != nil || len(evs) != 4 {
		t.Fatal(len(evs), err)
	}
	for _, ev := range evs {
		if ev.Metadata.TenantID != "acme" {
			t.Errorf("version %d has metadata %+v", ev.Version, ev.Metadata)
		}
	}
	// The same streams by the other form.
	withBalance(t, f.accounts(t, nil), "1", 4, 0)
	if _, err := f.store.Append(ctx, "account-1", event.AnyVersion, []event.Event{{Type: "Strange"}}); err != nil {
		t.Fatal(err)
	}
	var unknown *event.UnknownTypeError
	if _, _, err := d.Load(ctx, "1"); !errors.As(err, &unknown) {
		t.Errorf("an event of an unknown type: %v", err)
	}
}

// A cached state saves the reads. It is not used after another writer has appended, and a refusal
// is never decided on it.
func TestCache(t *testing.T) { onEach(t, testCache) }

func testCache(t *testing.T, f *fixture) {
	r := f.accounts(t, &aggregate.Options{Cache: 2, Retries: -1})
	other := f.accounts(t, nil)
	reads := func(do func() error) int64 {
		t.Helper()
		before := f.log.reads.Load()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		return f.log.reads.Load() - before
	}
	update := func(r *aggregate.Repository[*Account], id string, decision func(*Account) error) func() error {
		return func() error { _, err := r.UpdateOrNew(t.Context(), id, decision); return err }
	}
	if n := reads(update(r, "1", deposit(1))); n == 0 {
		t.Error("the first update read nothing")
	}
	if n := reads(update(r, "1", deposit(1))); n != 0 {
		t.Errorf("the second update read %d times", n)
	}
	reads(update(other, "1", deposit(100)))
	if n := reads(update(r, "1", deposit(1))); n == 0 {
		t.Error("an update of a state that is over read nothing")
	}
	withBalance(t, r, "1", 4, 103)
	reads(update(other, "1", deposit(100)))
	reads(update(r, "1", func(a *Account) error { return a.Withdraw(200) })) // the cached state has 103
	withBalance(t, r, "1", 6, 3)
	reads(update(r, "2", deposit(1)))
	reads(update(r, "3", deposit(1))) // now 1 is the one that was used least recently
	if n := reads(update(r, "1", deposit(1))); n == 0 {
		t.Error("the cache holds more than its limit")
	}
	d := f.deciders(t, &aggregate.Options{Cache: 1, Retries: -1})
	handle := func(cents int) func() error {
		return func() error { _, err := d.Handle(t.Context(), "d", cents); return err }
	}
	reads(handle(5))
	if n := reads(handle(5)); n != 0 {
		t.Errorf("the second command read %d times", n)
	}
	reads(update(other, "d", deposit(100)))
	reads(handle(-50))
	withBalance(t, r, "d", 4, 60)
}
