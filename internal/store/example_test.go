package store_test

import (
	"fmt"

	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/store"
)

// Two appends to one stream are read from memory, and reach the sorted files as one piece:
// two records, one feed block, one set of totals.
func Example() {
	hot := store.NewHot(1 << 20)
	for i := range uint64(2) {
		var g group
		g.appendEvents(1, "order-1", i+1, i+1, 1, fmt.Sprintf("event %d", i+1))
		if err := hot.Apply(g.effects()); err != nil {
			fmt.Println(err)
		}
	}
	records := hot.Records(format.AppendPrefix(nil, format.TagVersion, 1, []byte("order-1")))
	for i := range records.Len() {
		b, err := format.DecodeBody(records.At(i))
		fmt.Printf("version %d: %s %v\n", b.Version, b.Value, err)
	}
	err := hot.Drain(1<<20, func(changes []store.Change) error {
		fmt.Println(len(changes), "changes")
		return nil
	})
	fmt.Println(hot.Pending(1), err)
	// Output:
	// version 1: event 1 <nil>
	// version 2: event 2 <nil>
	// 5 changes
	// false <nil>
}
