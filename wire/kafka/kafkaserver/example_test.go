package kafkaserver_test

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mainstemdev/mainstem/server"
	"github.com/mainstemdev/mainstem/wire/kafka/kafkaserver"
)

// A server in memory that Kafka clients can use.
func Example() {
	ctx := context.Background()
	k := kafkaserver.New()
	k.Config.Listen = "127.0.0.1:0"
	c := server.DefaultConfig()
	c.Log, c.Listen, c.Components = server.Memory, "127.0.0.1:0", []server.Component{k}
	s, err := server.Open(ctx, c)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Stop(ctx)
	if err := s.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}

	client, err := kgo.NewClient(kgo.SeedBrokers(k.Addr().String()), kgo.AllowAutoTopicCreation())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	r, err := client.ProduceSync(ctx, &kgo.Record{Topic: "parcels", Value: []byte("on its way")}).First()
	fmt.Println(r.Topic, r.Offset, err)
	// Output: parcels 0 <nil>
}
