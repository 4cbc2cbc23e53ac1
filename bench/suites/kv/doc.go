// Package kv is the suite of workloads for key-value stores: tables of keys and
// values, one client and many, small values and large.
//
// # Nouns
//
// A [Store] is what a contender must do. A [Swapper] can compare and set, a
// [Watcher] tells of changes, a [Bounded] store may have no room for large values;
// stores that cannot are skipped there, with the reason. A [Factory]
// opens stores and says how durable their writes are. To measure your own:
//
//	func BenchmarkStores(b *testing.B) {
//		kv.Run(b, kv.Factory{Name: "mine", Durability: suite.Fsync, Open: open})
//	}
//
// # Workloads
//
// Keys are key-0, key-1, …, values value-0, value-1, …; a large value has 1 MiB.
//
//	set                    write a new key; also with 8 and 32 clients
//	set-get                write a new key and read it
//	get, get/spread        read one key again and again; any of 100,000 keys
//	list, page             of 100 tables with 1,000 keys: all keys of one; 100 of them from the 100th on, in order;
//	                       the first one after writes is not timed
//	set-large, get-large, set-get-large, delete-large    the same with 1 MiB; delete-large writes and deletes
//	delete                 delete a small key
//	compare-and-set        replace a value if it is the one that was read; also with 8 clients on one key
//	get-many/100, set-many/100
//	watch                  from the write to its arrival at a watcher
//	scale/set, scale/set-many    a million keys, with the curve
//
// # Guarantees
//
// All contenders work on the same keys and values, made before the clock runs. A
// round writes to a table of its own that is new, so "a new key" is one; what the
// round before wrote is dropped, untimed. Answers are kept while the clock runs, a
// few from places that a store cannot foresee, and compared after it stopped; what
// was written is read back. What is read again and again changes between rounds.
//
// # Concurrency and ownership
//
// A store is called from as many goroutines as the case has clients.
//
// # Testing
//
// The tests have stores that cheat, and expect that each is caught.
//
//snippet:var open = kv.Factory{}.Open
package kv
