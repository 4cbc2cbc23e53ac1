package embedded_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog/embedded"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "embedded")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := embedded.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	ctx := context.Background()
	b := mainstem.NewBatch()
	b.Ensure("greetings", mainstem.Policy{History: 1})
	b.Put("greetings", []byte("en"), []byte("hello"))
	if _, err := store.Commit(ctx, b); err != nil {
		log.Fatal(err)
	}
	r, err := store.Get(ctx, "greetings", []byte("en"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, version %d\n", r.Value, r.Version)
	// Output: hello, version 1
}
