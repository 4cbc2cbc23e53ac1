// Package readmodelpg is read models in tables of the user's own PostgreSQL database. It has the
// queries of package readmodel, and SQL can read the same tables. (In the terms of Marten, a
// projection that writes them is a flat table projection.)
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
// A [DB] is a database, and the target of projections. A [Table] is a table of it; its entries are
// its rows, one struct each. [Table.In] is the same table within a transaction of the program's
// own.
//
// # Tags
//
// The tag sql:"NAME,…" names the column of a field. Without a name, the column has the field's name
// in lower case with underscores; "-" leaves the field out. The fields of an embedded struct are
// columns themselves, unless it has a tag: then it is left out, or is one column. These options may
// follow:
//
//   - pk: the key of an entry. Exactly one field has it: a text, an integer or a UUID.
//   - index, unique: an index of this column. index=NAME and unique=NAME make one index of all
//     fields with the same NAME.
//   - nullable: the column may be NULL although the field is no pointer; NULL reads as zero. A
//     zero is written as zero, but "" as NULL if the column is a uuid.
//   - type=…: another type than the default. docs/event-sourcing.md has a table of the types.
//
// # Guarantees
//
// Package readmodel checks the fields and values of a query against the struct before anything
// runs, with the same errors. The entries of a result, their order and the cursors are those of a
// readmodel.Table too: text is compared by its bytes, NULL comes before all other values, and
// cursors are interchangeable. One thing differs: keys that are integers are ordered as numbers
// here, and as texts there. A query is one statement, so its result is as of one moment. Names are
// quoted, and values are parameters.
//
// Every event of a projection takes effect exactly once. If the log is in the same database
// (package pglog), the rows, the checkpoint and all other writes of the handlers are one
// transaction. Otherwise the rows and the position of the newest event are one transaction, and the
// commit of the checkpoint in the log follows; see target.go. The entries that a handler has read
// are a condition of its commit: if another commit changes one of them, the events are handled
// again; see rows.go.
//
// [Open] makes a table, or adds columns and indexes to an existing one. It never changes or removes
// a column. A column of another type is refused.
//
// # Limits
//
//   - Times are truncated to the microsecond, in entries and in queries. NaN is refused in entries,
//     and equals nothing in queries. Text with a NUL or with bytes that are not UTF-8 is refused in
//     both.
//   - A field that is a struct, a map or the like is a column of JSON. A query can compare it by
//     IsNull and NotNull only.
//   - In one commit, a value of a unique index can move from an entry to another one, but two
//     entries cannot exchange theirs.
//   - A projection is rebuilt in place. It cannot be live or inline.
//   - With the log elsewhere, the handlers may write to the database only. A commit of rows that
//     was under way when [projection.Engine.Pause] returned may still succeed. After a restore of
//     the log or of the database from a backup, the projection must be rebuilt. A database that
//     belongs to another log is refused.
//   - event.Store.RetryParked calls a function of the caller with the parked events. It writes
//     tables by [Table.In], for example.
//
// # Files
//
//	db.go       databases
//	columns.go  the layout of a table, from the tags of its struct
//	types.go    types of columns, and encoding of values
//	decode.go   decoding of values
//	migrate.go  making and extending tables
//	table.go    writes and reads by key
//	sql.go      statements
//	query.go    queries in SQL
//	find.go     execution of queries
//	rows.go     entries that handlers of projections read and write
//	target.go   commits of projections
//	state.go    positions of projections
//	errors.go   errors of PostgreSQL
//
// # Concurrency
//
// A DB and a Table may be used by many goroutines; a table of [Table.In] like its transaction. No
// goroutines are started. The pool belongs to the caller.
//
//snippet:import "github.com/jackc/pgx/v5/pgxpool"
//snippet:type OrderPlaced struct { Total int64 }
//snippet:var pool *pgxpool.Pool
//snippet:var engine *projection.Engine
//snippet:var ctx context.Context
package readmodelpg
