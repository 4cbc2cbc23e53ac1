package natskv_test

import (
	"context"
	"fmt"
	"os"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/mainstemdev/mainstem/contrib/natskv"
	"github.com/mainstemdev/mainstem/kv"
)

type user struct {
	Name string `json:"name"`
}

func ok[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// connectForExample starts a server inside the process and connects to it.
func connectForExample() (*nats.Conn, func()) {
	dir := ok(os.MkdirTemp("", "natskv"))
	srv := ok(server.NewServer(&server.Options{JetStream: true, StoreDir: dir, DontListen: true, NoSigs: true}))
	srv.Start()
	nc := ok(nats.Connect("", nats.InProcessServer(srv)))
	return nc, func() {
		nc.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
		os.RemoveAll(dir)
	}
}

func Example() {
	nc, stop := connectForExample()
	defer stop()
	ctx := context.Background()
	store := ok(natskv.OpenStore(ctx, nc, nil))
	defer store.Close()
	users := ok(natskv.Open[user](store, "users", nil))

	rev := ok(users.Put(ctx, "42", user{"Ada"}))
	ok(users.Put(ctx, "43", user{"Grace"}))
	ok(users.Update(ctx, "42", user{"Ada L."}, rev))
	_, err := users.Update(ctx, "42", user{"?"}, rev)
	fmt.Println(err)
	for e, err := range users.List(ctx, &kv.Query{Prefix: "4"}) {
		if err != nil {
			panic(err)
		}
		fmt.Println(e.Key, e.Value.Name)
	}
	// Output:
	// update: space users: key "42": conflict: want version 1, got version 3
	// 42 Ada L.
	// 43 Grace
}

// A service of go-micro and one of go-orb keep their tables in one bucket.
func ExampleShared() {
	nc, stop := connectForExample()
	defer stop()
	ctx := context.Background()
	store := ok(natskv.OpenStore(ctx, nc, &natskv.Options{Layout: natskv.Shared(false)}))
	defer store.Close()
	sessions := ok(natskv.Open[string](store, "app/sessions", nil))

	ok(sessions.Put(ctx, "ada", "on"))
	fmt.Println(ok(sessions.Subject("ada")))
	raw := ok(natskv.Open[natskv.Envelope](store, "app/sessions", nil))
	fmt.Printf("%s\n", ok(raw.Get(ctx, "ada")).Value.Data)
	// Output:
	// $KV.app.sessions_ada
	// on
}
