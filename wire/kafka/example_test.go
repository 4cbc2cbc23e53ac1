package kafka_test

import (
	"context"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// A Kafka client produces to a log in this process and consumes from it.
func Example() {
	ctx := context.Background()
	fmt.Println(run(ctx))
	// Output: order 42: paid <nil>
}

func run(ctx context.Context) (string, error) {
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		return "", err
	}
	defer log.Close()
	topics, err := topic.Open(log, nil)
	if err != nil {
		return "", err
	}
	defer topics.Close()
	server, err := kafka.Open(ctx, topics, nil)
	if err != nil {
		return "", err
	}
	defer server.Shutdown(ctx)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go server.Serve(l, nil)

	client, err := kgo.NewClient(kgo.SeedBrokers(l.Addr().String()), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("orders"),
		kgo.ConsumeTopics("orders"), kgo.DisableIdempotentWrite())
	if err != nil {
		return "", err
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, kgo.KeyStringRecord("42", "paid")).FirstErr(); err != nil {
		return "", err
	}
	fetches := client.PollFetches(ctx)
	r := fetches.Records()[0]
	return fmt.Sprintf("order %s: %s", r.Key, r.Value), fetches.Err()
}
