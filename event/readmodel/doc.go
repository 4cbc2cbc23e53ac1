// Package readmodel is a table of structs that is asked by their fields: what a projection writes, and a
// page of a program shows.
//
//	orders, err := readmodel.Open(log, "shop/orders", &readmodel.Options[Order]{
//		Key: func(o Order) string { return o.ID },
//	})
//	err = orders.Upsert(ctx, Order{ID: "42", Status: "pending", Total: 995})
//
//	open, err := orders.Find(ctx, readmodel.Where("Status", readmodel.Eq, "pending").
//		And("Total", readmodel.Ge, 100).OrderBy("Total", readmodel.Desc).Limit(10))
//
// # Guarantees
//
// A [Table] is a table of package kv: every write has a form for a batch, so a read model changes in the commit of the
// events that it shows, or of the checkpoint of its subscription. A query sees one moment. Its fields and
// values are checked against the type before anything is read: a name that the type lacks is
// a [*FieldError], and so is a value that is not exactly one of the field's type.
//
// # Indexes
//
// [Options.Indexes] are kept by every write, in its commit: so a write into a batch reads first, takes a context and returns
// an error. A query uses the index that fits best, and [Table.Explain] says which. Without one it reads the whole table, or
// from the cursor to the limit when it is in the order of the keys.
//
//	readmodel.Options[Order]{Key: …, Indexes: []readmodel.Index{{Fields: []string{"Status", "Total"}}}}
//
// # Limits
//
// A query with Or uses no index, and no field of a list can be in one. On an engine without snapshots (JetStream) a query by
// an index sees one moment for each few hundred entries.
//
// # Concurrency
//
// Tables are safe for concurrent use; a [Query] belongs to one goroutine while it is built.
//
//snippet:type Order struct { ID, Status string; Total int }
//snippet:var log mainstem.Log
//snippet:var ctx context.Context
package readmodel
