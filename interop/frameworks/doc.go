// Package frameworks runs the adapters of contrib/natskv with the frameworks that they are
// for. It is a module of its own: what the frameworks bring along is in no program of
// ours.
//
//	cd interop/frameworks && go test ./...
//
// # What is here
//
// Folder gomicro4: gomicro.Store is go-micro's store.Store, and go-micro's plug-in
// nats-js-kv and the adapter work by turns on the same buckets of the same server.
// What one writes the other reads, lists and deletes, with every option that decides about the
// layout; and both store the same bytes.
//
// Folder gomicro5: the adapter with the types of go-micro 5, next to the store in
// memory that go-micro brings along. Both versions of go-micro in one program do not
// start, so the plug-in is not in this one.
//
// Folder goorb: goorb.KVStore is go-orb's kvstore.KVStore and kvstore.Watcher. go-orb finds
// the adapter by its name in a service's configuration, starts and stops it. The plug-in
// natsjs has the other part, in every combination of its settings.
//
// This package holds what the three have in common.
//
// # Limits
//
// Not every module proxy has natsjs, and a module must build everywhere: in a program
// without natsjs, its part is played by a peer that does the same with nats.go. To have
// natsjs itself, let go.mod require it, and add a file to folder goorb that links it:
//
//	import _ "github.com/go-orb/plugins/kvstore/natsjs"
//
// TestWhichPlugin says which of both it was. The plug-ins run with the nats.go of the
// root module, not with the older ones that they were released with: a program has one.
//
// # Testing
//
// The packages below are tests. Each test starts servers of its own on free ports of
// loopback.
package frameworks
