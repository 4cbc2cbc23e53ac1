// Command quickstart makes one commit across three views: an order takes stock from a bucket,
// appends an event and publishes a message for the warehouse. Either all of it is written, or
// nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/kv"
	"github.com/mainstemdev/mainstem/topic"
)

// Order is the data of the event and of the message.
type Order struct {
	Item  string `json:"item"`
	Count int    `json:"count"`
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	log, err := pebblelog.OpenMemory(nil) // or pebblelog.Open("data", nil)
	if err != nil {
		return err
	}
	defer log.Close()
	stock, err := kv.Open[int](log, "shop/stock", nil)
	if err != nil {
		return err
	}
	orders, err := event.Open(log, "orders", nil)
	if err != nil {
		return err
	}
	topics, err := topic.Open(log, nil)
	if err != nil {
		return err
	}
	defer topics.Close()
	parcels, err := topics.Ensure(ctx, "parcels", topic.Spec{Partitions: 3}) // creates it at the first start
	if err != nil {
		return err
	}
	if _, err := stock.Put(ctx, "tea", 10); err != nil {
		return err
	}

	place := func(id string, o Order) error {
		have, err := stock.Get(ctx, o.Item)
		if err != nil {
			return err
		}
		placed, err := event.JSON("OrderPlaced", o)
		if err != nil {
			return err
		}
		b := mainstem.NewBatch()
		stock.PutTo(b, o.Item, have.Value-o.Count, kv.IfRevision(have.Revision)) // nobody took any meanwhile
		orders.AppendTo(b, "order-"+id, event.NoStream, []event.Event{placed})   // the order is new
		parcels.PublishTo(b, topic.Record{Key: []byte(id), Value: placed.Data})
		_, err = log.Commit(ctx, b)
		return err
	}

	if err := place("1", Order{"tea", 4}); err != nil {
		return err
	}
	err = place("1", Order{"tea", 4}) // the same order again: nothing is written
	fmt.Println("placing it twice is a conflict:", errors.Is(err, mainstem.ErrConflict))

	left, err := stock.Get(ctx, "tea")
	if err != nil {
		return err
	}
	fmt.Println("left:", left.Value)
	for ev, err := range orders.Feed(ctx, nil) {
		if err != nil {
			return err
		}
		fmt.Printf("event: %s %s %s\n", ev.Stream, ev.Type, ev.Data)
	}
	for r, err := range parcels.Consume(ctx, nil) {
		if err != nil {
			return err
		}
		fmt.Printf("message: %s %s\n", r.Key, r.Value)
	}
	return nil
}
