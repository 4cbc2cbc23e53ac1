package pglog_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

func Example() {
	ctx := context.Background()
	url, err := testpostgres.ExampleDB(ctx) // postgres://user@host:5432/database
	if err != nil {
		fmt.Println(err)
		return
	}
	log, err := pglog.Open(ctx, url, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()

	b := mainstem.NewBatch()
	b.Ensure("greetings", mainstem.Policy{History: 1})
	b.Put("greetings", []byte("en"), []byte("hello"))
	b.Put("greetings", []byte("fr"), []byte("bonjour"))
	if _, err := log.Commit(ctx, b); err != nil {
		fmt.Println(err)
		return
	}
	for r, err := range log.Scan(ctx, "greetings", mainstem.Range{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %s, version %d, position %d\n", r.Key, r.Value, r.Version, r.Position)
	}
	// Output:
	// en hello, version 1, position 1
	// fr bonjour, version 1, position 2
}

// A transaction of the program's own: the row and the event are there together or not at all.
func ExampleLog_BatchInTx() {
	ctx := context.Background()
	url, err := testpostgres.ExampleDB(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	log, err := pglog.Open(ctx, url, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close(ctx)

	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "CREATE TABLE invoice (id text PRIMARY KEY, total int)"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO invoice VALUES ('i-1', 90)"); err != nil {
			return err
		}
		b := mainstem.NewBatch()
		b.Ensure("event/invoices", mainstem.Policy{})
		b.Put("event/invoices", []byte("invoice-1"), []byte(`{"total": 90}`))
		_, err := log.BatchInTx(ctx, tx, b)
		return err
	})
	fmt.Println(err)

	var stream, data string
	err = db.QueryRow(ctx, "SELECT stream, data FROM mainstem.events").Scan(&stream, &data)
	fmt.Println(stream, data, err)
	// Output:
	// <nil>
	// invoice-1 {"total": 90} <nil>
}
