package gomicro_test

import (
	"context"
	"fmt"
	"os"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/contrib/natskv/gomicro"
)

func ok[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newStore is what a service writes, with the types of go-micro's package store.
func newStore(ctx context.Context, nc *nats.Conn) Store {
	s := ok(natskv.OpenStore(ctx, nc, &natskv.Options{Layout: natskv.GoMicro(false)}))
	return ok(gomicro.New[Record, Options, ReadOptions, WriteOptions, DeleteOptions, ListOptions,
		Option, ReadOption, WriteOption, DeleteOption, ListOption](ctx, s, &gomicro.Config{Table: "users"}))
}

func Example() {
	dir := ok(os.MkdirTemp("", "gomicro"))
	defer os.RemoveAll(dir)
	srv := ok(server.NewServer(&server.Options{JetStream: true, StoreDir: dir, DontListen: true, NoSigs: true}))
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	nc := ok(nats.Connect("", nats.InProcessServer(srv)))
	defer nc.Close()

	store := newStore(context.Background(), nc)
	defer store.Close()
	if err := store.Write(&Record{Key: "ada", Value: []byte("Lovelace")}); err != nil {
		panic(err)
	}
	fmt.Printf("%s %q\n", ok(store.Read("ada"))[0].Value, ok(store.List()))
	// Output: Lovelace ["ada"]
}
