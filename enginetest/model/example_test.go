package model_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
)

func Example() {
	ctx := context.Background()
	log := model.New(nil)
	defer log.Close()

	b := mainstem.NewBatch()
	b.Ensure("accounts", mainstem.Policy{History: 1})
	b.IfAbsent("accounts", []byte("alice"))
	b.Put("accounts", []byte("alice"), []byte("90"))
	receipt, err := log.Commit(ctx, b)
	fmt.Println(receipt.First, receipt.Versions, err)

	_, err = log.Commit(ctx, b) // once more: the condition no longer holds
	fmt.Println(errors.Is(err, mainstem.ErrConflict), err)
	// Output:
	// 1 [1] <nil>
	// true commit: space accounts: key "alice": conflict: want absent, got version 1
}
