// Package interop holds tests of Mainstem with clients that we did not write, so
// that a protocol means what its other implementations take it to mean. It is a
// module of its own: what those clients bring along is in no program of ours.
//
//	cd interop && go test ./...
//
// # Testing
//
// Every test starts a server on a free port of loopback. Here is the client of
// gRPC's authors, grpc-go, against package wire/rpc in the process of the test.
// Folder kafka holds four libraries for Kafka against the program itself, and the
// program speed, which measures it; folder librdkafka, a module of its own, an old
// version of one of them. They need cgo and a C compiler. Folder java holds Kafka's own
// Java clients and programs; it needs a JDK and Maven.
package interop
