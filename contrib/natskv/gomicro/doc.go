// Package gomicro gives a natskv store the method set of go-micro's store.Store, so
// that a service switches to it by changing the constructor, and shares its data with
// services that still use the plug-in nats-js-kv.
//
// # How to plug it in
//
// go-micro is not imported: its types are type parameters, and any of its versions
// fits. A service names them once:
//
//	import "go-micro.dev/v5/store"
//
//	type natsStore = gomicro.Store[
//		store.Record, store.Options, store.ReadOptions, store.WriteOptions, store.DeleteOptions, store.ListOptions,
//		store.Option, store.ReadOption, store.WriteOption, store.DeleteOption, store.ListOption,
//	]
//
//	var _ store.Store = (*natsStore)(nil)
//
//	func newStore(ctx context.Context, nc *nats.Conn) (store.Store, error) {
//		s, err := natskv.OpenStore(ctx, nc, &natskv.Options{Layout: natskv.GoMicro(false)}) // true: EncodeKeys
//		if err != nil {
//			return nil, err
//		}
//		return gomicro.New[
//			store.Record, store.Options, store.ReadOptions, store.WriteOptions, store.DeleteOptions, store.ListOptions,
//			store.Option, store.ReadOption, store.WriteOption, store.DeleteOption, store.ListOption,
//		](ctx, s, &gomicro.Config{NotFound: store.ErrNotFound})
//	}
//
// # Guarantees
//
// What natskv promises: a write that returned is seen by every later read of the
// same store. Read, List and Delete find a bucket that another process made; the
// plug-in only knows those it has opened itself. Expiry, TTL and metadata are kept; the
// Expiry of a record that is read is what is left of it by the clock of the servers, and
// above 0. Offsets and limits count what matches, in the order of the keys.
//
// # Concurrency and ownership
//
// A Store may be used from many goroutines. Close closes the natskv store below,
// not the connection.
//
// # Limits
//
// Those of natskv. Names and keys that only differ in where an underline stands
// are the same key, as in the plug-in: table "a" and key "b_c" is table "a_b", key "c".
//
// # Testing
//
// The tests use types of go-micro's shape against a real server, and compare what is
// stored byte for byte. The module interop/frameworks has the types of go-micro 4 and 5
// themselves, and the plug-in work on the same buckets.
//
//snippet:import "github.com/nats-io/nats.go"
package gomicro
