package lease_test

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/lease"
)

// A node acquires a lease and commits fenced writes. After the release they fail.
func Example() {
	ctx := context.Background()
	log, err := pebblelog.OpenMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()
	k, err := lease.Open(ctx, log, lease.Member{Name: "a", Start: 1, Address: "10.0.0.1:4370"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer k.Close(ctx)
	l, err := k.Acquire(ctx, "printer", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	write := func(page string) error {
		b := mainstem.NewBatch()
		b.Ensure("printed", mainstem.Policy{})
		b.Put("printed", []byte("pages"), []byte(page))
		l.Fence(b)
		_, err := log.Commit(ctx, b)
		return err
	}
	fmt.Println("owner:", write("1"))
	if err := l.Release(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println("former owner:", mainstem.KindOf(write("2")))
	// Output:
	// owner: <nil>
	// former owner: conflict
}
