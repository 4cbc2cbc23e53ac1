package topic_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/topic"
)

func ok[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Publishing a record, updating a key and committing an offset are one commit.
func Example() {
	ctx := context.Background()
	log := ok(pebblelog.OpenMemory(nil))
	defer log.Close()
	topics := ok(topic.Open(log, nil))
	defer topics.Close()

	orders := ok(topics.Ensure(ctx, "orders", topic.Spec{Partitions: 3}))
	bills := ok(topics.Ensure(ctx, "bills", topic.Spec{}))

	b := mainstem.NewBatch()
	orders.PublishTo(b, topic.Record{Key: []byte("anna"), Value: []byte("3 apples")})
	ok(log.Commit(ctx, b))

	billing := orders.Offsets("billing")
	for r, err := range orders.Consume(ctx, &topic.ConsumeOptions{From: topic.FromGroup("billing", topic.FromStart())}) {
		check(err)
		b := mainstem.NewBatch()
		bills.PublishTo(b, topic.Record{Key: r.Key, Value: []byte("to pay: " + string(r.Value))})
		billing.CommitTo(b, r.Partition, r.Offset+1)
		ok(log.Commit(ctx, b)) // the bill is there and the order done, or neither
	}
	for r, err := range bills.Consume(ctx, nil) {
		check(err)
		fmt.Printf("%s %s\n", r.Key, r.Value)
	}
	// Output: anna to pay: 3 apples
}

func ExampleProducer() {
	ctx := context.Background()
	log := ok(pebblelog.OpenMemory(nil))
	defer log.Close()
	topics := ok(topic.Open(log, nil))
	defer topics.Close()
	clicks := ok(topics.Ensure(ctx, "clicks", topic.Spec{Partitions: 2}))

	p := ok(clicks.Producer(&topic.ProducerOptions{Compression: topic.Zstd, Linger: 5 * time.Millisecond}))
	for i := range 1000 {
		p.Produce(ctx, topic.Record{Key: fmt.Append(nil, "user-", i%10), Value: []byte("/index.html")}, nil)
	}
	check(p.Close()) // sends what lingers, and tells of anything that failed

	ends := ok(clicks.Ends(ctx))
	fmt.Println(ends[0] + ends[1])
	// Output: 1000
}

func ExampleTopic_Consume() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log := ok(pebblelog.OpenMemory(nil))
	defer log.Close()
	topics := ok(topic.Open(log, nil))
	defer topics.Close()
	t := ok(topics.Ensure(ctx, "greetings", topic.Spec{}))
	p := ok(t.Producer(nil))
	defer p.Close()
	ok(p.ProduceSync(ctx, topic.Record{Value: []byte("hello")}, topic.Record{Value: []byte("goodbye")}))

	for r, err := range t.Consume(ctx, &topic.ConsumeOptions{Follow: true}) {
		check(err)
		fmt.Println(r.Offset, string(r.Value))
		if string(r.Value) == "goodbye" {
			break
		}
	}
	// Output:
	// 0 hello
	// 1 goodbye
}

// A fetch that waits: it reads, and waits only if there is nothing.
func ExampleWaiter() {
	ctx := context.Background()
	log := ok(pebblelog.OpenMemory(nil))
	defer log.Close()
	topics := ok(topic.Open(log, nil))
	defer topics.Close()
	t := ok(topics.Create(ctx, "x", topic.Spec{}))

	w := topics.NewWaiter()
	defer w.Close()
	check(w.Add(ctx, t, 0))
	go func() {
		b := mainstem.NewBatch()
		t.PublishPartitionTo(b, 0, topic.Record{Value: []byte("at last")})
		ok(log.Commit(ctx, b))
	}()
	chunk := ok(t.Read(ctx, 0, 0, nil))
	for len(chunk.Data) == 0 {
		check(w.Wait(ctx))
		chunk = ok(t.Read(ctx, 0, 0, nil))
	}
	fmt.Println("read up to offset", chunk.Next)
	// Output: read up to offset 1
}

func ExampleCatalog_Alter() {
	ctx := context.Background()
	log := ok(pebblelog.OpenMemory(nil))
	defer log.Close()
	topics := ok(topic.Open(log, nil))
	defer topics.Close()
	t := ok(topics.Ensure(ctx, "state", topic.Spec{Config: topic.Config{topic.CleanupPolicy: "compact"}}))

	check(topics.Alter(ctx, "state", func(c topic.Config) error {
		c[topic.MinCompactionLag] = "60000"
		return nil
	}))
	err := topics.SetConfig(ctx, "state", "retention.hours", "1")
	fmt.Println(t.Config())
	fmt.Println(strings.Contains(err.Error(), `unknown configuration "retention.hours"`))
	// Output:
	// map[cleanup.policy:compact min.compaction.lag.ms:60000]
	// true
}
