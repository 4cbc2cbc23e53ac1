package domains_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/examples/domains"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is an event store in memory.
func store(t *testing.T, name string) *event.Store {
	t.Helper()
	return storeIn(t, testengines.Memory(t), name)
}

func storeIn(t *testing.T, log mainstem.Log, name string) *event.Store {
	t.Helper()
	s, err := event.Open(log, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// orderRepository keeps orders in s.
func orderRepository(t *testing.T, s *event.Store) *aggregate.Repository[*domains.Order] {
	t.Helper()
	types, err := domains.Types()
	if err != nil {
		t.Fatal(err)
	}
	orders, err := aggregate.Open(s, types, "order", domains.NewOrder, nil)
	if err != nil {
		t.Fatal(err)
	}
	return orders
}

// An order is its events: a program that loads it has the state of the one that saved it.
func TestBasic(t *testing.T) {
	ctx, s := t.Context(), store(t, "shop")
	orders := orderRepository(t, s)

	made := orders.New("001")
	err := errors.Join(made.Create("ann"), made.AddItem("tea", 2, 450), made.AddItem("pot", 1, 2000))
	if err != nil || made.Total() != 2900 || len(made.Uncommitted()) != 3 {
		t.Fatalf("%+v, %v", made, err)
	}
	saved, err := orders.Save(ctx, made)
	if err != nil || saved.Last != 3 || len(made.Uncommitted()) != 0 {
		t.Fatalf("%+v, %v", saved, err)
	}
	loaded, err := orders.Load(ctx, "001")
	if err != nil || loaded.Customer != "ann" || loaded.Total() != 2900 || loaded.Version() != 3 {
		t.Fatalf("%+v, %v", loaded, err)
	}
	if err := errors.Join(loaded.AddItem("cup", 4, 300), loaded.Ship("p1")); err != nil {
		t.Fatal(err)
	}
	if _, err := orders.Save(ctx, loaded); err != nil {
		t.Fatal(err)
	}

	// The one that was made first does not know of this: its next save is a conflict.
	if err := made.Ship("p2"); err != nil {
		t.Fatal(err)
	}
	var conflict *event.ConflictError
	if _, err := orders.Save(ctx, made); !errors.As(err, &conflict) {
		t.Errorf("a save on version 3 of 5: %v", err)
	}

	var got []string
	for ev, err := range s.Events(ctx, "order-001", nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ev.Type)
	}
	if want := "OrderCreated"; len(got) != 5 || got[0] != want || got[4] != "OrderShipped" {
		t.Errorf("the stream holds %v", got)
	}
	info, err := s.StreamInfo(ctx, "order-001")
	if err != nil || info.Version != 5 || info.Count != 5 || event.ParseStreamID(info.Stream).Category != "order" {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := orders.Load(ctx, "002"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("an order that nobody made: %v", err)
	}
}
