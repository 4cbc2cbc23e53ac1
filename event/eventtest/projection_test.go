package eventtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/eventtest"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

type total struct {
	Order string
	Cents float64
}

// totals is a projection that adds up what was paid for an order, in some way.
type totals struct {
	store *event.Store
	types *event.Types
	table *readmodel.Table[total]
}

func newTotals(t testing.TB) totals {
	t.Helper()
	log := testengines.Memory(t)
	f := totals{types: event.NewTypes(nil)}
	var errs [3]error
	f.store, errs[0] = event.Open(log, "shop", nil)
	f.table, errs[1] = readmodel.Open(log, "shop/totals", &readmodel.Options[total]{Key: func(v total) string { return v.Order }})
	errs[2] = errors.Join(event.Register[Paid](f.types, "Paid"), event.Register[Placed](f.types, "Placed"))
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f totals) given(t testing.TB, add func(old, cents float64) (float64, error), clear bool) *eventtest.ProjectionCase[total] {
	t.Helper()
	p, err := projection.New("totals", 1, event.Filter{},
		projection.On(func(ctx context.Context, tx *projection.Tx, ev Paid, r event.Recorded) error {
			return projection.Modify(ctx, tx, f.table, r.Stream, func(old total, _ bool) (total, error) {
				cents, err := add(old.Cents, ev.Cents)
				return total{r.Stream, cents}, err
			})
		}))
	if err != nil {
		t.Fatal(err)
	}
	if clear {
		p.WithClear(f.table.Clear)
	}
	return eventtest.GivenProjection(t, f.store, f.types, p, f.table)
}

func TestGivenProjection(t *testing.T) {
	sum := func(old, cents float64) (float64, error) { return old + cents, nil }
	for _, clear := range []bool{true, false} {
		check(t, func(t testing.TB) {
			newTotals(t).given(t, sum, clear).Given(Paid{5}, eventtest.In("order-1", Paid{7}, Paid{8}), Placed{}).
				ThenModel("order-1", total{"order-1", 15}).ThenModel("test-1", total{"test-1", 5}).ThenCount(2).ThenNone("order-2").
				Given(Paid{1}).ThenModel("test-1", total{"test-1", 6})
		})
	}
	check(t, func(t testing.TB) {
		newTotals(t).given(t, sum, true).Given(Paid{5}).ThenModel("test-1", total{"test-1", 6}).ThenModel("x", total{}).ThenNone("test-1").ThenCount(0)
	}, "Cents: got 5, want 6", `row "x"`, `there is a row "test-1"`, "there are 1 rows, want 0")
	calls := 0.0
	check(t, func(t testing.TB) {
		newTotals(t).given(t, func(float64, float64) (float64, error) { calls++; return calls, nil }, true).Given(Paid{5})
	}, `row "test-1" is another one when the events are handled again`)
	check(t, func(t testing.TB) {
		newTotals(t).given(t, func(float64, float64) (float64, error) { return 0, errPaid }, false).Given(Paid{5})
	}, "projection totals has failed")
	check(t, func(t testing.TB) { newTotals(t).given(t, sum, true).Given(Odd{}) }, "is not registered")
	if _, err := newTotals(t).table.Get(t.Context(), "none"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Error(err)
	}
}
