package natslog_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
)

// Two processes share a log: a condition of one holds against the other.
func ExampleOpen() {
	url, stop := startServer() // in production: servers of your own
	defer stop()

	ctx := context.Background()
	one, err := natslog.Open(url+"?stream=ACCOUNTS", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer one.Close()
	other, err := natslog.Open(url+"?stream=ACCOUNTS", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close()

	b := mainstem.NewBatch()
	b.Ensure("accounts", mainstem.Policy{History: 1})
	b.IfAbsent("accounts", []byte("alice"))
	b.Put("accounts", []byte("alice"), []byte("100"))
	receipt, err := one.Commit(ctx, b)
	fmt.Println("one wrote position", receipt.First, err)
	_, err = other.Commit(ctx, b)
	fmt.Println("the other:", errors.Is(err, mainstem.ErrConflict), err)
	// Output:
	// one wrote position 1 <nil>
	// the other: true commit: space accounts: key "alice": conflict: want absent, got version 1
}

// startServer starts a server for the example.
func startServer() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "natslog")
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir})
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
	return s.ClientURL(), func() {
		s.Shutdown()
		s.WaitForShutdown()
		_ = os.RemoveAll(dir)
	}
}
