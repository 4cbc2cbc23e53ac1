package goorb_test

import (
	"context"
	"fmt"
	"os"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/contrib/natskv/goorb"
)

func ok[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newAdapter is what a service writes, with the types of go-orb's package kvstore.
func newAdapter(ctx context.Context, nc *nats.Conn) adapter {
	layout := ok(natskv.GoOrb(natskv.OrbDefaults()))
	s := ok(natskv.OpenStore(ctx, nc, &natskv.Options{Layout: layout}))
	return adapter{
		ok(goorb.New[Record, GetOptions, SetOptions, KeysOptions, ReadOptions, WriteOptions, DeleteOptions, ListOptions,
			GetOption, SetOption, KeysOption, ReadOption, WriteOption, DeleteOption, ListOption](ctx, s, nil)),
		ok(goorb.NewWatcher[WatchEvent, WatchOptions, WatchOption](ctx, s, nil)),
	}
}

func Example() {
	dir := ok(os.MkdirTemp("", "goorb"))
	defer os.RemoveAll(dir)
	srv := ok(server.NewServer(&server.Options{JetStream: true, StoreDir: dir, DontListen: true, NoSigs: true}))
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	nc := ok(nats.Connect("", nats.InProcessServer(srv)))
	defer nc.Close()

	ctx := context.Background()
	var store KVStore = newAdapter(ctx, nc)
	defer store.Stop(ctx)
	if err := store.Set(ctx, "ada", "app", "users", []byte("Lovelace")); err != nil {
		panic(err)
	}
	fmt.Printf("%s %q\n", ok(store.Get(ctx, "ada", "app", "users"))[0].Value, ok(store.Keys(ctx, "app", "users")))
	// Output: Lovelace ["ada"]
}
