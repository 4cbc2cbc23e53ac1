package mainstem_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// One batch moves money between two accounts, if nobody else did meanwhile.
func Example() {
	l, err := pebblelog.OpenMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	ctx := context.Background()
	alice, bob := []byte("alice"), []byte("bob")

	open := mainstem.NewBatch()
	open.Ensure("accounts", mainstem.Policy{History: 1})
	open.Put("accounts", alice, []byte("100"))
	open.Put("accounts", bob, []byte("100"))
	if _, err := l.Commit(ctx, open); err != nil {
		log.Fatal(err)
	}

	move := mainstem.NewBatch()
	move.IfVersion("accounts", alice, 1)
	move.Put("accounts", alice, []byte("90"))
	move.Put("accounts", bob, []byte("110"))
	receipt, err := l.Commit(ctx, move)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("versions", receipt.Versions, "positions", receipt.First, "to", receipt.Last)

	_, err = l.Commit(ctx, move) // alice is at version 2 now
	var e *mainstem.Error
	if errors.As(err, &e) && errors.Is(err, mainstem.ErrConflict) {
		fmt.Println(e)
	}
	// Output:
	// versions [2 2] positions 3 to 4
	// commit: space accounts: key "alice": conflict: want version 1, got version 2
}
