// Package readmodelpg is read models in tables of the user's own PostgreSQL database: what package readmodel is in
// a log, with the same queries, where SQL gets at it too.
//
//	type Order struct {
//		ID     string `sql:",pk"`
//		Status string `sql:",index=status_total"`
//		Total  int64  `sql:",index=status_total"`
//	}
//	db, err := readmodelpg.New(pool, nil) // a *pgxpool.Pool
//	orders, err := readmodelpg.Open[Order](ctx, db, "shop.orders")
//	err = orders.Upsert(ctx, Order{ID: "42", Status: "pending", Total: 995})
//
//	open, err := orders.Find(ctx, readmodel.Where("Status", readmodel.Eq, "pending").
//		And("Total", readmodel.Ge, 100).OrderBy("Total", readmodel.Desc).Limit(10))
//
//	// A projection writes by Get, Put, Delete and Modify.
//	p, err := projection.New("orders", 1, event.Filter{Category: "order"},
//		projection.On(func(ctx context.Context, tx *projection.Tx, ev OrderPlaced, r event.Recorded) error {
//			readmodelpg.Put(tx, orders, Order{ID: r.Stream, Status: "pending", Total: ev.Total})
//			return nil
//		}))
//	err = engine.Register(p.WithTarget(db).WithClear(orders.Clear), nil)
//
// # Nouns
//
// A [DB] is a database, and the target of projections. A [Table] is a table of it. [Table.In] is the same
// table within a transaction of the program's own.
//
// # Tags
//
// The tag sql:"NAME,…" names a column; without a name it is the field's in lower case with underscores, and "-" leaves
// the field out. After the name: pk is the key of an entry, of one field, which is a text, a number without fraction or a UUID;
// index and unique make an index, index=NAME one of all fields that say so; nullable lets a column be NULL whose field is no
// pointer: it reads as zero; type=… is another type than the default. docs/event-sourcing.md has a table of types.
//
// # Guarantees
//
// Fields and values of a query are checked against the struct by package readmodel before anything runs, and
// give the same errors. Its entries, their order and the cursors are the same too: text is compared by its
// bytes, NULL is before all, cursors may be exchanged. A query is one statement, so it sees one moment. Names are quoted, and values
// are parameters.
//
// A projection takes effect exactly once. If its log is in the same database (package pglog), rows, checkpoint and what else
// its handlers write are one transaction. Otherwise rows and the position of the newest event are one, the checkpoint
// in the log follows, and events up to the position are passed over: target.go says how. The entries that a handler has read are a condition of
// its commit: if somebody else, such as another partition, has changed it, the events are handled again.
//
// [Open] makes a table, and adds columns and indexes to one that is there. It never changes or removes a column. One
// of another type is refused.
//
// # Limits
//
//   - Times are kept to the microsecond, those of queries too. NaN, and text with a NUL or bytes that are no UTF-8,
//     are refused.
//   - A field that is a struct, a map or the like is a column of JSON, of which a query can ask nothing but IsNull.
//   - A projection is rebuilt in place. Live and inline it is not.
//   - With the log elsewhere, the handlers write nothing but the database; rows may still be committed by a
//     commit that was under way when [projection.Engine.Pause] returned; and after a restore of the log or of the database from
//     a backup, the projection is to be rebuilt. A database that belongs to another log is noticed.
//   - Events that were parked and are retried by event.Store.RetryParked are handled by the caller's own function, for
//     example with [Table.In].
//
// # Files
//
//	db.go       databases
//	columns.go  what a struct says of its table
//	types.go    types of columns, and values on their way there
//	decode.go   and back
//	migrate.go  making and extending tables
//	table.go    writes and reads by key
//	sql.go      statements
//	query.go    queries in SQL
//	find.go     queries
//	rows.go     what handlers of projections read and write
//	target.go   commits of projections
//	state.go    how far projections have come
//	errors.go   errors of PostgreSQL
//
// # Concurrency
//
// Everything here is safe for concurrent use, but a table in a transaction, which is as the transaction is. No goroutine is
// started. The pool is the caller's.
//
//snippet:import "github.com/jackc/pgx/v5/pgxpool"
//snippet:type OrderPlaced struct { Total int64 }
//snippet:var pool *pgxpool.Pool
//snippet:var engine *projection.Engine
//snippet:var ctx context.Context
package readmodelpg
