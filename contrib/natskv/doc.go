// Package natskv is the kv view on native JetStream key-value buckets: typed tables
// in the layouts of NATS itself, of go-orb and of go-micro, so that services of
// those worlds, and the nats tool, share the data.
//
// # Words
//
// A [Store] is the buckets of one JetStream account, seen in one [Layout]. A layout
// says in which bucket a table "database/table" lies, how its keys stand in subjects, and
// in which form values are stored. A [Bucket] is a typed handle on one table. Entries,
// queries and watch options are those of package kv. A revision is the sequence of a
// message in its bucket: it grows over all keys, with gaps between those of one.
//
//	store, err := natskv.OpenStore(ctx, nc, nil) // the layout of NATS itself
//	users, err := natskv.Open[User](store, "users", nil)
//	rev, err := users.Put(ctx, "42", User{Name: "Ada"})
//	rev, err = users.Update(ctx, "42", User{Name: "Ada L."}, rev)
//	for e, err := range users.List(ctx, &kv.Query{Prefix: "4"}) { ... }
//
// Packages gomicro and goorb below it give a store the method sets of go-micro's
// store.Store and go-orb's kvstore.KVStore.
//
// # The index
//
// The first list, page, count or cached read of a bucket starts an index of it: its
// keys in memory, in order, fed by one consumer that receives headers only. Lists
// read the index, not the server. What this store itself writes or reads is told to the index
// at once, so that its own writes are never missing. Of other clients' writes:
//
//   - Without more, a list shows what happened up to MaxStale ago, mostly all but the
//     last millisecond. Heartbeats prove it: while the proof is older than
//     [Options.MaxStale], because the connection is lost, lists wait, and fail with Unavailable
//     in the end. They do not show what may be out of date.
//   - [Bucket.Sync] waits until lists show all that was written before the call.
//
// Where a server restarts, messages are lost, or a bucket is deleted and made
// anew, the index goes on after the last message, or begins anew if it must.
//
// # The cache
//
// With [Options.CacheBytes], Get and GetMany answer from memory what has not
// changed since it was last read or written here; the index tells of changes. A cached
// answer is never older than what this store has written or seen of the key, and
// never older than MaxStale: without proof of that, the server is asked. For
// the newest of other clients' writes, call Sync first, or use a store without a cache.
//
// # Guarantees
//
//   - Reads create nothing. A key or bucket that does not exist is NotFound to Get, and
//     empty to everything that lists or counts.
//   - A write that returned is in the bucket, as durable as the server makes it: in the
//     file of the leader, and with replicas with a majority. A server syncs its files
//     every two minutes unless it is configured otherwise.
//   - A read shows every write that was acknowledged before. Where a bucket has replicas
//     that is why its leader is asked; see [Options.AnyReplica].
//   - Compare-and-set is exact: of the writers that saw revision r, one succeeds.
//   - What is listed can be read: keys that no reader of the layout could ask for are
//     left out of lists and watches.
//   - Dropping a table or database touches exactly that; see [Store.DropDatabase].
//
// # Concurrency and ownership
//
// Everything may be used from many goroutines. [Store.Close] ends the goroutines that
// feed the indexes; the connection stays the caller's. Values given to a write are
// borrowed until it returns; entries belong to the caller that receives them.
//
// # Errors
//
// All are [*mainstem.Error]; failed writes say by their Outcome whether they may have
// happened. Invalid are keys, names, options, and values above the server's max_payload, unless
// [LargeObjects] keeps them in an object store. Unavailable is no answer in time.
//
// # Limits
//
// Keys have at most [MaxToken] bytes in their subject. In layouts that do not encode keys
// they are made of letters, digits and -/_=. only. Nil and empty values are the same in
// layouts without envelopes. A time to live counts in seconds. A value is gone from lists
// and the cache when its time has run out; the server removes it some milliseconds later,
// and until then Create finds it. An index takes some 150 bytes of memory for each key, see
// [Options.IndexKeys]. Mirrors are Unsupported. It needs NATS server 2.11, and 2.12 for
// [Atomic].
//
// # Testing
//
// The tests run against real servers, alone and as a cluster, that are stopped and
// restarted under them. Golden vectors hold the bytes of each layout.
//
//snippet:import "github.com/nats-io/nats.go"
//snippet:type User struct{ Name string }
//snippet:var nc *nats.Conn
package natskv
