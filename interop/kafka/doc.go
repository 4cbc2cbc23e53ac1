// Package kafka holds what every Kafka client library has to do against a broker,
// written once: a [Scenario] speaks to a library through the small interface
// [Client], and each library has an adapter in a folder of its own, the Java clients in
// interop/java.
//
//	cd interop && go test ./kafka                          # against mainstem serve
//	cd interop && go test ./kafka -target=kfake            # against franz-go's fake, to compare
//	cd interop && go test ./kafka -target=127.0.0.1:9092   # against what listens there
//	cd interop && go test ./kafka -run 'Clients/sarama/group'
//	cd interop && go test ./kafka -run KilledBroker -crash 2m   # kill -9 at length
//	cd interop && go test -tags kcat ./kafka -run Kcat          # with Debian's kcat
//
// # Words
//
// A [Library] is a client library with what it cannot do and why; a [Scenario] is
// a promise of the broker; [Env] is one run of a scenario. What a scenario wrote
// is judged by franz-go ([Judge]), no matter which library wrote it, so that no library marks its
// own work.
//
// # The tables
//
// docs/kafka.md says which library does what, and which versions of which API are
// served. Both tables are drawn by this package, the first from the scenarios that
// run, the second from what the server says of itself; a test compares them with
// the document, and with -rewrite writes them.
//
// # Concurrency and ownership
//
// Clients are used by one goroutine at a time. Libraries run side by side against
// one broker: topics and groups carry the name of the library.
//
// # Testing
//
// This package is a test. The broker is a child process, the real program, and
// connections are cut by package proxy, which stands between a client and its
// broker and understands enough of the protocol to stay there.
package kafka
