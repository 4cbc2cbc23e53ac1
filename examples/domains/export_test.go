package domains_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// orderPlaced has no private data: it names the customer by an ID.
type orderPlaced struct{ Customer, Item string }

// exported is an event in the form in which it is given to the person concerned.
type exported struct {
	Stream, Type string
	Value        any
	Redacted     bool // the key of its private fields was destroyed
}

// export returns all events that concern a person, from all streams, in the order of the log. A tag
// of an event names the person that it is about; UserID names the person who acted, who may be an
// administrator.
func export(t *testing.T, s *event.Store, types *event.Types, person string, keep func(event.Recorded) bool) []exported {
	t.Helper()
	var out []exported
	for ev, err := range s.Query(t.Context(), event.Tagged("person:"+person), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if keep != nil && !keep(ev) {
			continue
		}
		v, err := types.Decode(ev)
		if err != nil {
			t.Fatal(err)
		}
		c, _ := v.(customerCreated)
		out = append(out, exported{ev.Stream, ev.Type, v, c.Email == shredded})
	}
	return out
}

func TestExport(t *testing.T) {
	keys := newKeyring(t, "a", "b")
	types := event.NewTypes(nil)
	err := errors.Join(
		event.Register[customerCreated](types, "CustomerCreated", event.WithCodec(private{keys}, codec.JSON)),
		event.Register[orderPlaced](types, "OrderPlaced"),
	)
	if err != nil {
		t.Fatal(err)
	}
	s, err := event.Open(testengines.Memory(t), "crm", nil)
	if err == nil {
		err = s.CreateIndex(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	add := func(stream, person, actor string, v any) {
		t.Helper()
		ev, err := types.Encode(v)
		ev.Tags, ev.Metadata.UserID = []string{"person:" + person}, actor
		if err == nil {
			_, err = s.Append(t.Context(), stream, event.AnyVersion, []event.Event{ev})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add("customer-alice", "alice", "admin", customerCreated{"a", "Alice", "CH", "alice@example.org", "+41 1"})
	add("order-1", "alice", "alice", orderPlaced{"alice", "tea"})
	add("customer-bob", "bob", "admin", customerCreated{"b", "Bob", "FR", "bob@example.org", "+33 1"})
	add("order-2", "bob", "alice", orderPlaced{"bob", "a present"}) // alice ordered it for bob
	add("payment-1", "alice", "system", orderPlaced{"alice", "paid"})

	streams := func(events []exported) (names []string) {
		for _, e := range events {
			names = append(names, e.Stream)
		}
		return names
	}
	alice := export(t, s, types, "alice", nil)
	if got, want := streams(alice), []string{"customer-alice", "order-1", "payment-1"}; !slices.Equal(got, want) {
		t.Errorf("what concerns alice: %v, want %v", got, want)
	}
	if c, ok := alice[0].Value.(customerCreated); !ok || c.Email != "alice@example.org" || alice[0].Redacted {
		t.Errorf("%+v", alice[0])
	}
	byAlice := func(ev event.Recorded) bool { return ev.Metadata.UserID == "alice" }
	if got := streams(export(t, s, types, "alice", byAlice)); !slices.Equal(got, []string{"order-1"}) {
		t.Errorf("what alice did for herself: %v", got)
	}
	future := func(ev event.Recorded) bool { return ev.Time.After(time.Now().Add(time.Hour)) }
	if got := export(t, s, types, "alice", future); len(got) != 0 {
		t.Errorf("what will happen: %v", got)
	}

	keys.destroy("b")
	bob := export(t, s, types, "bob", nil)
	if len(bob) != 2 || !bob[0].Redacted || bob[1].Redacted || bob[1].Value != (orderPlaced{"bob", "a present"}) {
		t.Errorf("after the key is gone: %+v", bob)
	}
}
