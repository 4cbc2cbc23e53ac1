package pebblelog_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

func Example() {
	l, err := pebblelog.OpenMemory(nil) // pebblelog.Open("data", nil) for a directory
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	ctx := context.Background()

	b := mainstem.NewBatch()
	b.Ensure("greetings", mainstem.Policy{History: 1})
	b.Put("greetings", []byte("en"), []byte("hello"))
	b.Put("greetings", []byte("fr"), []byte("bonjour"))
	if _, err := l.Commit(ctx, b); err != nil {
		log.Fatal(err)
	}
	for r, err := range l.Scan(ctx, "greetings", mainstem.Range{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s, version %d, position %d\n", r.Key, r.Value, r.Version, r.Position)
	}
	// Output:
	// en hello, version 1, position 1
	// fr bonjour, version 1, position 2
}
