package event_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/event"
)

func Example() {
	ctx := context.Background()
	log := model.New(nil) // or pebblelog.Open("data", nil)
	defer log.Close()
	orders, err := event.Open(log, "orders", nil)
	if err != nil {
		panic(err)
	}

	a, err := orders.Append(ctx, "order-42", event.NoStream, []event.Event{
		{Type: "OrderPlaced", Data: []byte(`{"total":99.99}`), Metadata: event.Metadata{UserID: "ann"}},
		{Type: "OrderPaid"},
	})
	fmt.Println("versions", a.First, "to", a.Last, err)

	// Somebody who has seen version 1 only is told so.
	_, err = orders.Append(ctx, "order-42", event.AtVersion(1), []event.Event{{Type: "OrderCancelled"}})
	var conflict *event.ConflictError
	fmt.Println(errors.As(err, &conflict), conflict.Actual)

	evs, err := orders.Load(ctx, "order-42", nil)
	for _, ev := range evs {
		fmt.Printf("%d %s %q\n", ev.Version, ev.Type, ev.Metadata.UserID)
	}
	fmt.Println(err)
	// Output:
	// versions 1 to 2 <nil>
	// true 2
	// 1 OrderPlaced "ann"
	// 2 OrderPaid ""
	// <nil>
}

// One commit appends to two streams and changes a table of another view: all of
// it becomes true, or nothing.
func ExampleStore_AppendTo() {
	ctx := context.Background()
	log := model.New(nil)
	defer log.Close()
	orders, _ := event.Open(log, "orders", nil)

	b := mainstem.NewBatch()
	orders.AppendTo(b, "order-42", event.NoStream, []event.Event{{Type: "OrderPlaced"}, {Type: "OrderPaid"}})
	orders.AppendTo(b, "customer-7", event.AnyVersion, []event.Event{{Type: "CustomerOrdered"}})
	b.Ensure("totals", mainstem.Policy{History: 1})
	b.Put("totals", []byte("customer-7"), []byte("99.99"))
	receipt, err := log.Commit(ctx, b)

	a, _ := orders.Result(b, receipt, "order-42")
	fmt.Println(a.First, a.Last, err)
	// Output: 1 2 <nil>
}

// The handler's writes and the checkpoint are one commit: after a crash at any
// moment, each event is counted once.
func ExampleStore_Subscribe() {
	ctx := context.Background()
	log := model.New(nil)
	defer log.Close()
	orders, _ := event.Open(log, "orders", nil)

	sub, err := orders.Subscribe(ctx, "last-event", &event.SubscribeOptions{Filter: event.Filter{Category: "order"}},
		func(ctx context.Context, b *mainstem.Batch, ev event.Recorded) error {
			b.Ensure("last", mainstem.Policy{History: 1})
			b.Put("last", []byte(ev.Stream), []byte(ev.Type))
			return nil
		})
	if err != nil {
		panic(err)
	}
	defer sub.Close()

	a, _ := orders.Append(ctx, "order-42", event.NoStream, []event.Event{{Type: "OrderPlaced"}})
	err = sub.WaitFor(ctx, a.LastPosition) // read your own writes
	rec, _ := log.Get(ctx, "last", []byte("order-42"))
	fmt.Println(string(rec.Value), err)
	// Output: OrderPlaced <nil>
}

func ExampleStore_LoadState() {
	ctx := context.Background()
	log := model.New(nil)
	defer log.Close()
	orders, _ := event.Open(log, "orders", nil)

	b := mainstem.NewBatch()
	orders.AppendTo(b, "order-42", event.NoStream, []event.Event{{Type: "A"}, {Type: "B"}, {Type: "C"}})
	orders.SaveSnapshotTo(b, event.Snapshot{Stream: "order-42", Version: 3, Data: []byte("state after C")})
	log.Commit(ctx, b)
	orders.Append(ctx, "order-42", event.AtVersion(3), []event.Event{{Type: "D"}})

	state, err := orders.LoadState(ctx, "order-42", nil)
	fmt.Printf("%s, then %d event: version %d, %v\n", state.Snapshot.Data, len(state.Events), state.Version, err)
	// Output: state after C, then 1 event: version 4, <nil>
}

func ExampleStore_Feed() {
	ctx := context.Background()
	log := model.New(nil)
	defer log.Close()
	orders, _ := event.Open(log, "orders", nil)
	orders.Append(ctx, "order-1", event.NoStream, []event.Event{{Type: "OrderPlaced"}, {Type: "OrderPaid"}})
	orders.Append(ctx, "customer-7", event.NoStream, []event.Event{{Type: "CustomerOrdered"}})
	orders.Append(ctx, "order-2", event.NoStream, []event.Event{{Type: "OrderPlaced"}})

	for ev, err := range orders.Feed(ctx, &event.FeedOptions{Filter: event.Filter{Category: "order", Types: []string{"OrderPlaced"}}}) {
		fmt.Println(ev.Position, ev.Stream, ev.Type, err)
	}
	// Output:
	// 1 order-1 OrderPlaced <nil>
	// 4 order-2 OrderPlaced <nil>
}

func ExampleStore_Archive() {
	ctx := context.Background()
	log := model.New(nil)
	defer log.Close()
	orders, _ := event.Open(log, "orders", nil)
	orders.Append(ctx, "order-1", event.NoStream, []event.Event{{Type: "OrderPlaced"}})

	err := orders.Archive(ctx, "order-1")
	fmt.Println(err)
	_, err = orders.Append(ctx, "order-1", event.AnyVersion, []event.Event{{Type: "OrderPaid"}})
	fmt.Println(err)
	// Output:
	// <nil>
	// event store orders: stream "order-1" is archived and accepts no events; unarchive it first
}

func ExampleJSON() {
	ev, err := event.JSON("OrderPlaced", map[string]any{"total": 99.99})
	fmt.Println(ev.Type, ev.ContentType, string(ev.Data), err)
	// Output: OrderPlaced application/json {"total":99.99} <nil>
}

// A name belongs to one account: a decision on all events about the name, whatever their streams.
func ExampleStore_Decide() {
	ctx := context.Background()
	log := model.New(nil)
	defer log.Close()
	accounts, err := event.OpenIndexed(ctx, log, "accounts", nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	register := func(account, name string) error {
		_, err := accounts.Decide(ctx, event.Tagged("name:"+name), func(past []event.Recorded) ([]event.Append, error) {
			if len(past) > 0 {
				return nil, fmt.Errorf("%s belongs to %s", name, past[0].Stream)
			}
			registered := event.Event{Type: "Registered", Tags: []string{"name:" + name}}
			return []event.Append{{Stream: account, Events: []event.Event{registered}}}, nil
		})
		return err
	}
	fmt.Println(register("account-1", "ada"))
	fmt.Println(register("account-2", "ada"))
	for ev, err := range accounts.Query(ctx, event.Query{{Types: []string{"Registered"}}}, nil) {
		fmt.Println(ev.Stream, ev.Tags, err)
	}
	// Output:
	// <nil>
	// ada belongs to account-1
	// account-1 [name:ada] <nil>
}
