// Package kv is key-value tables on a log: typed, ordered, watched, and written
// in one commit with everything else on the same log.
//
// # Words
//
// A [Bucket] is a typed handle on one table. Tables are named "database/table"
// and live in the space kv/database/table. A key is a string of any bytes. Each
// write to a key is an [Entry] with a [Revision]: 1, 2, 3 and so on, deletions
// included. A watch is a sequence of the current values and then of every change.
//
//	users, err := kv.Open[User](log, "app/users", nil)
//	rev, err := users.Put(ctx, "42", User{Name: "Ada"})
//	rev, err = users.Update(ctx, "42", User{Name: "Ada L."}, rev)
//	for e, err := range users.List(ctx, &kv.Query{Prefix: "4"}) { ... }
//
// # Into a batch, or now
//
// Every write has two forms: Put(ctx, …) writes at once, PutTo(batch, …) adds to a
// batch, and [mainstem.Log.Commit] makes it true together with the rest: other keys,
// other tables, events, messages.
//
//	at once                       in a batch
//	Put(ctx, key, value)          PutTo(batch, key, value)
//	Create(ctx, key, value)       CreateTo(batch, key, value)
//	Update(ctx, key, value, r)    UpdateTo(batch, key, value, r)
//	PutMany(ctx, pairs)           PutManyTo(batch, pairs)
//	Delete(ctx, key)              DeleteTo(batch, key)
//	Purge(ctx, key)               PurgeTo(batch, key)
//	Modify(ctx, key, change)      ModifyTo(ctx, batch, key, change), which reads
//	Increment(ctx, b, key, n)     IncrementTo(ctx, batch, b, key, n), which reads
//	-                             ExpectTo(batch, key, IfRevision(r))
//	Import(ctx, pairs)            -, it commits many batches
//
// Writes of an [Indexed] table read first, so all of their forms for a batch take a context and return an error.
//
// A write takes the options that make sense for it, and the compiler refuses others:
// [PutOption], [ValueOption], [DeleteOption].
//
// # Guarantees
//
//   - Reads create nothing. A key or table that does not exist is NotFound to Get,
//     and empty to everything that yields a sequence or counts.
//   - A write that returned is visible to every read that begins afterwards.
//   - List, Count and GetMany show one moment. PutMany is atomic.
//   - Compare-and-set is exact: of the writers that saw revision r, one succeeds.
//     The others fail with Conflict, which carries the revision found.
//   - A value whose time to live has run out is gone from every read at once;
//     watches report it when the engine removes it.
//   - Values come back as they were written: a bucket of []byte keeps nil and empty
//     distinct, and JSON, Protobuf or any other [codec.Codec] does what it documents.
//   - Dropping a table or a database touches exactly that: "default" is neither
//     "default2" nor "default-x".
//
// Order: the revisions of a key, and the changes that a watch yields, are in the order of
// their commits. Durability: a write at once has reached the durability of [Options] when
// it returns, a write in a batch that of the batch when Commit returns.
//
// # How it works
//
// A table is a space, a key of the table a key of the space, an entry a record. A bucket
// holds a codec and a policy and no data: every read goes to the log.
//
//	bucket.go, options.go, name.go   Open, Get, the policy of a table, names
//	write.go, option.go, now.go      writes into a batch, their options, writes at once
//	modify.go, many.go               read and write again on Conflict; many keys
//	list.go, history.go, entry.go    queries, the revisions of a key, entries
//	watch.go, ends.go                watches: the phases, and whether a key was new
//	table.go                         listing and dropping tables and databases
//	at.go                            a table as it was
//
// Indexes are spaces of their own; indexed_write.go says how they are kept, and catalog.go how programs agree on them.
//
//	part.go, index.go, catalog.go    parts and their bytes, declarations of a program, those of the log
//	indexed.go                       the handle with indexes, and the declaration that it has read
//	indexed_write.go, indexed_now.go writes that keep the indexes, into a batch and at once
//	indexed_read.go                  reading by an index
//	build.go, index_check.go         building an index beside writers, comparing it with the values
//
// # Concurrency and ownership
//
// A Bucket may be used from many goroutines and needs no closing. Entries belong
// to the caller that receives them. A []byte value given to a batch is borrowed until
// Commit returns; a method that acts at once borrows it until it returns.
//
// # Errors
//
// All are, or unwrap to, a [*mainstem.Error]: Invalid for keys, names, options and values that
// cannot be encoded, NotFound, Conflict, Exists from Create, Corrupt for a stored
// value that the codec cannot read, and whatever the log reports.
//
// # Limits
//
// Keys have 1 to [mainstem.MaxKey] bytes, names of databases and tables at most
// [MaxName]. Values and batches have the log's limits ([mainstem.Limits]); PutMany
// is one batch, [Bucket.Import] is many.
//
// # Testing
//
// The tests run on every engine that the machine can start, and compare random
// programs with a Go map.
//
//snippet:type User struct{ Name string }
package kv
