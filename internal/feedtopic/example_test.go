package feedtopic_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/feedtopic"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// A space, as a consumer of its topic sees it: the view is that of the tests.
func Example() {
	ctx := context.Background()
	store, err := pebblelog.OpenMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{History: 1})
	for _, key := range []string{"a", "b", "a"} {
		b.Put("s", []byte(key), []byte("value"))
	}
	if _, err := store.Commit(ctx, b); err != nil {
		log.Fatal(err)
	}
	f := feedtopic.OpenFollowers(store, nil)
	defer f.Close()
	t := feedtopic.New(f, "t", feedtopic.ComputedID([16]byte{1}), plain{store})
	chunk, err := t.Read(ctx, 0, 0, nil)
	if err != nil {
		log.Fatal(err)
	}
	h, err := recordbatch.Parse(chunk.Data)
	if err != nil {
		log.Fatal(err)
	}
	var d recordbatch.Decoder
	for r, err := range d.Records(chunk.Data, h.FirstOffset) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s\n", r.Offset, r.Key)
	}
	// Output:
	// 2 b
	// 3 a
}
