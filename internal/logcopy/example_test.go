package logcopy_test

import (
	"context"
	"fmt"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/logcopy"
)

func Example() {
	ctx := context.Background()
	from, err := pebblelog.OpenMemory(nil)
	if err != nil {
		panic(err)
	}
	defer from.Close()
	to, err := pebblelog.OpenMemory(nil)
	if err != nil {
		panic(err)
	}
	defer to.Close()

	b := mainstem.NewBatch()
	b.Ensure("accounts", mainstem.Policy{})
	b.Put("accounts", []byte("alice"), []byte("90"))
	b.Put("accounts", []byte("alice"), []byte("110"))
	b.Truncate("accounts", []byte("alice"), 2) // the record of version 1 goes, its version does not
	if _, err := from.Commit(ctx, b); err != nil {
		panic(err)
	}

	c, err := logcopy.New(from, to, nil)
	if err != nil {
		panic(err)
	}
	report, err := c.Run(ctx)
	if err != nil {
		panic(err)
	}
	rec, err := to.Get(ctx, "accounts", []byte("alice"))
	fmt.Println(report.Records, report.Different, rec.Version, string(rec.Value), err)
	// Output: 1 0 2 110 <nil>
}
