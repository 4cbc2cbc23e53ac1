// Package goorb gives a natskv store the method sets of go-orb's kvstore.KVStore and
// kvstore.Watcher, so that a service switches to it by changing the constructor, and
// shares its data with services that still use the plug-in natsjs.
//
// # How to plug it in
//
// go-orb is not imported: its types are type parameters. A service names them once:
//
//	import "github.com/go-orb/go-orb/kvstore"
//
//	type natsStore struct {
//		*goorb.KVStore[
//			kvstore.Record, kvstore.GetOptions, kvstore.SetOptions, kvstore.KeysOptions,
//			kvstore.ReadOptions, kvstore.WriteOptions, kvstore.DeleteOptions, kvstore.ListOptions,
//			kvstore.GetOption, kvstore.SetOption, kvstore.KeysOption,
//			kvstore.ReadOption, kvstore.WriteOption, kvstore.DeleteOption, kvstore.ListOption,
//		]
//		*goorb.Watcher[kvstore.WatchEvent, kvstore.WatchOptions, kvstore.WatchOption]
//	}
//
//	var _ kvstore.KVStore = natsStore{}
//	var _ kvstore.Watcher = natsStore{}
//
// and makes them with [New] and [NewWatcher] on a store of the layout
// natskv.GoOrb(natskv.OrbDefaults()), or with the settings that the services share. go-orb
// takes the two as kvstore.Type{KVStore: natsStore{keys, watcher}}.
//
// # What is different from the plug-in
//
//   - Get heeds its options, Set its time to live, and both the context of the call.
//   - Reading does not create buckets. Keys of an empty bucket is empty, not an error.
//   - Offset and limit count the keys that match, in order.
//   - DropDatabase drops that database, not those whose names begin with its name.
//   - Watch keeps tables apart, tells creations from updates where it knows, and
//     closes its channel.
//
// # Guarantees
//
// What natskv promises: a write that returned is seen by every later read of the
// same store.
//
// # Concurrency and ownership
//
// All methods may be called from many goroutines. Stop closes the natskv store
// below, not the connection; see [Config.OnClose].
//
// # Limits
//
// Those of natskv. In layouts with a bucket for each table, a table that comes from the
// configuration names the bucket but is not in the keys, one that is given to the call is in
// both: the plug-in has it so, and the two do not see each other's keys. In natskv.Shared
// they are the same.
//
// # Testing
//
// The tests use types of go-orb's shape against a real server. The module
// interop/frameworks has go-orb's own, and go-orb start the adapter by a service's
// configuration, beside the plug-in on the same buckets.
package goorb
