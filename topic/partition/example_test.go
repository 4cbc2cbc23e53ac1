package partition_test

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

func ok[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A server commits the batches of many clients together, and refuses those that are invalid.
func Example() {
	ctx := context.Background()
	log := ok(pebblelog.OpenMemory(nil))
	defer log.Close()
	topics := ok(topic.Open(log, nil))
	defer topics.Close()
	orders := ok(ok(topics.Ensure(ctx, "orders", topic.Spec{})).Partition(0))

	var builder recordbatch.Builder
	builder.Append(&recordbatch.Record{Timestamp: recordbatch.NoTimestamp, Value: []byte("3 apples")})
	good := ok(builder.Finish(recordbatch.None))

	b := mainstem.NewBatch()
	slot := ok(orders.AppendTo(ctx, b, good))
	if _, err := orders.AppendTo(ctx, b, []byte("no record batch")); err != nil {
		fmt.Println("refused")
	}
	receipt := ok(log.Commit(ctx, b))
	fmt.Println("offset", slot.In(receipt).Base)
	// Output:
	// refused
	// offset 0
}
