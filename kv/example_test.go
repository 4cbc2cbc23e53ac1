package kv_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/kv"
)

type account struct {
	Owner   string `json:"owner"`
	Balance int64  `json:"balance"`
}

func ok[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func Example() {
	ctx := context.Background()
	log := ok(pebblelog.OpenMemory(nil))
	defer log.Close()
	accounts := ok(kv.Open[account](log, "bank/accounts", nil))

	rev := ok(accounts.Put(ctx, "alice", account{"Alice", 100}))
	ok(accounts.Put(ctx, "bob", account{"Bob", 20}))

	ok(accounts.Update(ctx, "alice", account{"Alice", 90}, rev))
	_, err := accounts.Update(ctx, "alice", account{"Alice", 80}, rev)
	fmt.Println(err)

	for e, err := range accounts.List(ctx, nil) {
		if err != nil {
			panic(err)
		}
		fmt.Println(e.Key, e.Value.Balance, "at revision", e.Revision)
	}
	// Output:
	// commit: space kv/bank/accounts: key "alice": conflict: want version 1, got version 2
	// alice 90 at revision 2
	// bob 20 at revision 1
}

// One commit moves money between two accounts and writes the receipt, or does
// nothing.
func ExampleBucket_PutTo() {
	ctx := context.Background()
	log := ok(pebblelog.OpenMemory(nil))
	defer log.Close()
	accounts := ok(kv.Open[account](log, "bank/accounts", nil))
	receipts := ok(kv.Open[string](log, "bank/receipts", nil))
	ok(accounts.PutMany(ctx, []kv.Pair[account]{
		{Key: "alice", Value: account{"Alice", 100}},
		{Key: "bob", Value: account{"Bob", 20}},
	}))

	both := ok(accounts.GetMany(ctx, "alice", "bob"))
	alice, bob := both[0], both[1]
	alice.Value.Balance -= 30
	bob.Value.Balance += 30

	b := mainstem.NewBatch()
	accounts.PutTo(b, "alice", alice.Value, kv.IfRevision(alice.Revision))
	accounts.PutTo(b, "bob", bob.Value, kv.IfRevision(bob.Revision))
	receipts.PutTo(b, "1", "alice paid bob 30", kv.IfAbsent())
	ok(log.Commit(ctx, b))

	_, err := log.Commit(ctx, b) // the same again: the revisions have moved on
	fmt.Println(errors.Is(err, mainstem.ErrConflict))
	fmt.Println(ok(accounts.Get(ctx, "bob")).Value.Balance)
	// Output:
	// true
	// 50
}

// A lock with a lease: Create takes it, Update renews it, and a holder that dies
// loses it when its time runs out. The revision is the fencing token: it only
// grows, so that a store can refuse a holder of the past.
func ExampleBucket_Create() {
	ctx := context.Background()
	log := ok(pebblelog.OpenMemory(nil))
	defer log.Close()
	locks := ok(kv.Open[string](log, "locks", nil))
	const lease = 30 * time.Second

	token := ok(locks.Create(ctx, "nightly", "worker 1", kv.TTL(lease)))
	_, err := locks.Create(ctx, "nightly", "worker 2", kv.TTL(lease))
	fmt.Println(errors.Is(err, mainstem.ErrExists))

	token = ok(locks.Update(ctx, "nightly", "worker 1", token, kv.TTL(lease)))
	if err := locks.Delete(ctx, "nightly", kv.IfRevision(token)); err != nil {
		panic(err) // lost it meanwhile
	}
	fmt.Println(ok(locks.Create(ctx, "nightly", "worker 2", kv.TTL(lease))) > token)
	// Output:
	// true
	// true
}

func ExampleBucket_Watch() {
	ctx := context.Background()
	log := ok(pebblelog.OpenMemory(nil))
	defer log.Close()
	colors := ok(kv.Open[string](log, "colors", nil))
	ok(colors.Put(ctx, "sea", "blue"))

	var resume mainstem.Position
	for e, err := range colors.Watch(ctx, nil) {
		if err != nil {
			panic(err)
		}
		if e.Op == kv.OpSynced { // all that was there has been told
			resume = e.Position
			break
		}
		fmt.Println(e.Op, e.Key, e.Value)
	}

	ok(colors.Put(ctx, "sea", "green"))
	ok(colors.Put(ctx, "sun", "yellow"))
	if err := colors.Delete(ctx, "sea"); err != nil {
		panic(err)
	}
	for e, err := range colors.Watch(ctx, &kv.WatchOptions{After: resume}) {
		if err != nil {
			panic(err)
		}
		if e.Op == kv.OpSynced {
			break
		}
		fmt.Println(e.Op, e.Key, e.Value)
	}
	// Output:
	// create sea blue
	// create sun yellow
	// delete sea
}

func ExampleBucket_Page() {
	ctx := context.Background()
	log := ok(pebblelog.OpenMemory(nil))
	defer log.Close()
	files := ok(kv.Open[string](log, "files", nil))
	for _, name := range []string{"b.txt", "a.go", "a.txt", "c.go", "d.go"} {
		ok(files.Put(ctx, name, "..."))
	}
	q := kv.Query{Suffix: ".go", Limit: 2}
	for {
		page, next, err := files.Page(ctx, &q)
		if err != nil {
			panic(err)
		}
		for _, e := range page {
			fmt.Println(e.Key)
		}
		if next == "" {
			break
		}
		q.After = next
	}
	// Output:
	// a.go
	// c.go
	// d.go
}

func ExampleIncrement() {
	ctx := context.Background()
	log := ok(pebblelog.OpenMemory(nil))
	defer log.Close()
	visits := ok(kv.Open[int64](log, "visits", nil))
	ok(kv.Increment(ctx, visits, "home", 1))
	fmt.Println(ok(kv.Increment(ctx, visits, "home", 41)))
	// Output: 42
}

func ExampleBucket_History() {
	ctx := context.Background()
	log := ok(pebblelog.OpenMemory(nil))
	defer log.Close()
	config := ok(kv.Open[string](log, "config", &kv.Options{History: 10}))
	ok(config.Put(ctx, "mode", "fast", kv.Metadata(map[string]string{"by": "ada"})))
	ok(config.Put(ctx, "mode", "safe", kv.Metadata(map[string]string{"by": "grace"})))
	if err := config.Delete(ctx, "mode"); err != nil {
		panic(err)
	}
	for e, err := range config.History(ctx, "mode", mainstem.Versions{Reverse: true}) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("%d %s %q by %q\n", e.Revision, e.Op, e.Value, e.Metadata["by"])
	}
	// Output:
	// 3 delete "" by ""
	// 2 update "safe" by "grace"
	// 1 create "fast" by "ada"
}
