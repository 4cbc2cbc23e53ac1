// Package interop holds tests of Mainstem with clients that we did not write, so
// that a protocol means what its other implementations take it to mean. It is a
// module of its own: what those clients bring along is in no program of ours.
//
//	cd interop && go test ./...
//
// # Testing
//
// Every test starts a server in its own process on a free port of loopback.
// Here is the client of gRPC's authors, grpc-go, against package wire/rpc.
package interop
