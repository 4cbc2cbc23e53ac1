package aggregate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
)

// sum is the row of an inline projection that all accounts change.
type sum struct {
	Name     string
	Deposits int
}

// inline returns the store of f with a projection that sums up all deposits in one row, and that row.
func (f *fixture) inline(t *testing.T) (*projection.InlineStore, func() int) {
	t.Helper()
	sums, err := readmodel.Open(f.log, "bank/sums", &readmodel.Options[sum]{Key: func(s sum) string { return s.Name }})
	if err != nil {
		t.Fatal(err)
	}
	p, err := projection.New("sums", 1, event.Filter{}, projection.On(func(ctx context.Context, tx *projection.Tx, ev Deposited, _ event.Recorded) error {
		return projection.Modify(ctx, tx, sums, "all", func(old sum, _ bool) (sum, error) { return sum{"all", old.Deposits + ev.Cents}, nil })
	}))
	if err != nil {
		t.Fatal(err)
	}
	s, err := projection.OpenInline(t.Context(), f.store, f.types, nil, p)
	if err != nil {
		t.Fatal(err)
	}
	return s, func() int {
		row, err := sums.Get(t.Context(), "all")
		if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
			t.Error(err)
		}
		return row.Deposits
	}
}

// Every save of a repository over a store with inline projections includes their rows.
func TestInline(t *testing.T) { onEach(t, testInline) }

func testInline(t *testing.T, f *fixture) {
	s, deposits := f.inline(t)
	r := f.accounts(t, &aggregate.Options{Inline: s, SnapshotEvery: 3, Cache: 2})
	if _, err := r.UpdateOrNew(t.Context(), "1", deposit(1)); err != nil {
		t.Fatal(err)
	}
	b := mainstem.NewBatch()
	a := r.New("2")
	if err := errors.Join(a.Deposit(10), r.SaveTo(t.Context(), b, a)); err != nil {
		t.Fatal(err)
	}
	if v, err := r.UpdateTo(t.Context(), b, "1", deposit(100)); err != nil || v != 2 {
		t.Fatal(v, err)
	}
	if n := deposits(); n != 1 {
		t.Errorf("before the commit: %d", n)
	}
	if _, err := f.log.Commit(t.Context(), b); err != nil || deposits() != 111 {
		t.Errorf("a batch of two: %d, %v", deposits(), err)
	}
	d := f.deciders(t, &aggregate.Options{Inline: s})
	b.Reset()
	_, err := d.Handle(t.Context(), "3", 1000)
	if err = errors.Join(err, d.HandleTo(t.Context(), b, "4", 10000)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.log.Commit(t.Context(), b); err != nil || deposits() != 11111 {
		t.Errorf("deciders: %d, %v", deposits(), err)
	}
	var wg sync.WaitGroup
	for g := range 6 { // accounts that change one row
		wg.Go(func() {
			for range 10 {
				if _, err := r.UpdateOrNew(t.Context(), fmt.Sprint("g", g%3), deposit(1)); err != nil && !errors.Is(err, mainstem.ErrConflict) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want := 11111
	for g := range 3 {
		a, err := r.Load(t.Context(), fmt.Sprint("g", g))
		if err != nil {
			t.Fatal(err)
		}
		want += a.Balance
	}
	if n := deposits(); n != want || n < 11141 {
		t.Errorf("the row says %d, the accounts %d", n, want)
	}

	var refused *event.InlineError
	if _, err := f.accounts(t, nil).UpdateOrNew(t.Context(), "1", deposit(1)); !errors.As(err, &refused) {
		t.Errorf("a repository over the plain store: %v", err)
	}
	other, err := event.Open(f.log, "other", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := aggregate.Open(other, f.types, "account", newAccount, &aggregate.Options{Inline: s}); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("the projections of another store: %v", err)
	}
}
