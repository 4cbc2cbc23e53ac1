package domains_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/aggregate"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// The forms that the event ProductAdded has had.
type (
	productAdded1 struct {
		Name  string
		Price float64
	}
	productAdded2 struct {
		Name, Currency string
		Price          float64
	}
	productAdded struct {
		Name, Currency string
		Price, TaxRate float64
	}
)

type product struct {
	aggregate.Root
	added productAdded
}

func (p *product) Apply(ev any) error {
	p.added = ev.(productAdded)
	return nil
}

// An event of the first schema version is upcast to the third when it is read. The stored event
// does not change.
func TestVersioning(t *testing.T) {
	ctx, s := t.Context(), storeIn(t, testengines.Memory(t), "catalog")
	old := event.NewTypes(nil)
	if err := event.Register[productAdded1](old, "ProductAdded"); err != nil {
		t.Fatal(err)
	}
	stored, err := old.Encode(productAdded1{"Wireless Mouse", 29.99})
	if err == nil {
		_, err = s.Append(ctx, "product-1", event.NoStream, []event.Event{stored})
	}
	if err != nil {
		t.Fatal(err)
	}

	types := event.NewTypes(nil)
	err = errors.Join(
		event.Register[productAdded](types, "ProductAdded", event.Schema(3)),
		event.UpcastFunc(types, "ProductAdded", 1, func(v productAdded1) (productAdded2, error) {
			return productAdded2{v.Name, "USD", v.Price}, nil
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := types.Check(); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("version 2 leads nowhere yet: %v", err)
	}
	err = types.Upcast("ProductAdded", 2, func(data []byte, _ event.Metadata) ([]byte, error) { // or on the bytes
		var v map[string]any
		if err := json.Unmarshal(data, &v); err != nil {
			return nil, err
		}
		v["TaxRate"] = 0.0
		return json.Marshal(v)
	})
	if err := errors.Join(err, types.Check()); err != nil {
		t.Fatal(err)
	}

	products, err := aggregate.Open(s, types, "product", func(string) *product { return new(product) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	mouse, err := products.Load(ctx, "1")
	if err != nil || mouse.added != (productAdded{"Wireless Mouse", "USD", 29.99, 0}) {
		t.Errorf("%+v, %v", mouse, err)
	}
	keyboard := products.New("2")
	if err := aggregate.Raise(keyboard, productAdded{"Mechanical Keyboard", "EUR", 149, 0.19}); err != nil {
		t.Fatal(err)
	}
	if _, err := products.Save(ctx, keyboard); err != nil {
		t.Fatal(err)
	}
	for stream, want := range map[string]int{"product-1": 1, "product-2": 3} {
		evs, err := s.Load(ctx, stream, nil)
		if err != nil || len(evs) != 1 {
			t.Fatalf("%d events, %v", len(evs), err)
		}
		if got, err := event.SchemaOf(evs[0].Metadata); got != want || err != nil {
			t.Errorf("%s is stored in version %d, %v; want %d", stream, got, err, want)
		}
	}

	// A program for schema version 3 refuses an event of version 4.
	newer := event.NewTypes(nil)
	if err := event.Register[productAdded](newer, "ProductAdded", event.Schema(4)); err != nil {
		t.Fatal(err)
	}
	next, err := newer.Encode(productAdded{Name: "Desk"})
	if err == nil {
		_, err = s.Append(ctx, "product-3", event.NoStream, []event.Event{next})
	}
	var future *event.SchemaFutureError
	if _, loadErr := products.Load(ctx, "3"); err != nil || !errors.As(loadErr, &future) {
		t.Errorf("%v; %v", err, loadErr)
	}
}
