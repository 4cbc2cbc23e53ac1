// Package librdkafka runs the scenarios of package interop/kafka with a librdkafka
// from before 2.11.1. Those look for single versions in what a broker offers, not
// for ranges, and silently do without what they do not find: compression, for
// example. A process can link only one librdkafka, so this is a module of its own.
//
//	cd interop/librdkafka && go test ./...
//
// # Testing
//
// The package is a test. The flags are those of package interop/kafka.
package librdkafka
