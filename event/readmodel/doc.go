// Package readmodel is read models in a log: tables of structs that projections write and that
// programs query by the fields of the structs.
//
//	orders, err := readmodel.Open(log, "shop/orders", &readmodel.Options[Order]{
//		Key: func(o Order) string { return o.ID },
//	})
//	err = orders.Upsert(ctx, Order{ID: "42", Status: "pending", Total: 995})
//
//	open, err := orders.Find(ctx, readmodel.Where("Status", readmodel.Eq, "pending").
//		And("Total", readmodel.Ge, 100).OrderBy("Total", readmodel.Desc).Limit(10))
//
// # Nouns
//
// An entry is one struct, with a key. A [Table] holds the entries of one type. A [Query] selects
// and orders entries. An [Index] is a second order of the entries, by fields. An [Alias] is a name
// that stands for one of several versions of a table, so that a projection can be rebuilt beside
// the table that is read.
//
// # Guarantees
//
// A [Table] is a table of package kv. Every write has a form for a batch, so a read model can
// change in the commit of the events that it is computed from, or of the checkpoint of its
// subscription.
//
// The result of a query is as of one moment; see Limits for the exception. The fields and values of
// a query are checked against the type before anything is read. A field that the type lacks, or a
// value that the type of the field cannot represent exactly, is a [*FieldError].
//
// # Indexes
//
// Every write maintains the indexes of [Options.Indexes] in its own commit. Such a write must read
// first, so its form for a batch takes a context and returns an error. A query uses the index that
// fits best; [Table.Explain] returns which. Without an index a query reads the whole table. If its
// result is in the order of the keys, it reads only from the cursor to the limit.
//
//	readmodel.Options[Order]{Key: …, Indexes: []readmodel.Index{{Fields: []string{"Status", "Total"}}}}
//
// # Limits
//
// A query with Or uses no index. A field that is a list cannot be in an index. On an engine without
// snapshots (JetStream), a query by an index is not as of one moment: each chunk of a few hundred
// entries is.
//
// # Concurrency
//
// A Table and an Alias may be used by many goroutines. A [Query] may be used by many goroutines
// once none of them changes it. Entries that are returned belong to the caller.
//
//	table.go, alias.go               tables, their writes, and versions of tables
//	query.go, parse.go, cursor.go    queries, queries for other packages, places in a result
//	compile.go, value.go             fields by reflection, conditions, comparison of values
//	index.go, plan.go                declared indexes, and the choice of one for a query
//	find.go                          the execution of queries
//
//snippet:type Order struct { ID, Status string; Total int }
//snippet:var log mainstem.Log
//snippet:var ctx context.Context
package readmodel
