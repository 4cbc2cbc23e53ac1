package eventtopic_test

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
	"github.com/mainstemdev/mainstem/wire/kafka/eventtopic"
)

// An event store, as a consumer of its topic sees it.
func Example() {
	ctx := context.Background()
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()
	orders, err := event.Open(log, "orders", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	placed := event.Event{Type: "OrderPlaced", Data: []byte("tea")}
	if _, err := orders.Append(ctx, "order-1", event.NoStream, []event.Event{placed}); err != nil {
		fmt.Println(err)
		return
	}

	topics := eventtopic.Open(log, nil)
	defer topics.Close()
	t, err := topics.Topic(ctx, "event.orders.order")
	if err != nil {
		fmt.Println(err)
		return
	}
	chunk, err := t.Read(ctx, 0, 0, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	batch, err := recordbatch.Parse(chunk.Data)
	if err != nil {
		fmt.Println(err)
		return
	}
	var d recordbatch.Decoder
	for r, err := range d.Records(chunk.Data, batch.FirstOffset) {
		fmt.Println(r.Offset, string(r.Key), r.Headers[0].Key, string(r.Headers[0].Value), string(r.Value), err)
	}
	// Output: 1 order-1 event-type OrderPlaced tea <nil>
}
