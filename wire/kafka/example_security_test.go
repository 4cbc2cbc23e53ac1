package kafka_test

import (
	"context"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// Clients of a listener must authenticate as a user. Add [kafka.Listener].TLS where
// others can listen.
func ExampleServer_SetUser() {
	users, err := runSecured(context.Background())
	fmt.Println(users, err)
	// Output: [{alice [SCRAM-SHA-256 SCRAM-SHA-512]}] <nil>
}

// runSecured reaches a server as a user of it, and returns all its users.
func runSecured(ctx context.Context) ([]kafka.User, error) {
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	topics, err := topic.Open(log, nil)
	if err != nil {
		return nil, err
	}
	defer topics.Close()
	server, err := kafka.Open(ctx, topics, nil)
	if err != nil {
		return nil, err
	}
	defer server.Shutdown(ctx)
	if err := server.SetUser(ctx, "alice", "correct horse"); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go server.Serve(l, &kafka.Listener{Mechanisms: []string{kafka.ScramSHA256, kafka.ScramSHA512}})
	alice := scram.Auth{User: "alice", Pass: "correct horse"}
	client, err := kgo.NewClient(kgo.SeedBrokers(l.Addr().String()), kgo.SASL(alice.AsSha512Mechanism()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return nil, err
	}
	return server.Users(ctx)
}
