// Package domains shows the toolkit of events feature by feature, in small domains that its tests run: orders,
// products, customers, accounts, users, sensors.
//
//	order.go              an aggregate with its commands, which most of the tests use
//	basic_test.go         an aggregate, its stream, and what the store says of it
//	bdd_test.go           rules of a domain as given, when, then; without a log
//	cqrs_test.go          commands through middleware, on every engine
//	audit_test.go         who did what, also what failed
//	versioning_test.go    events of three schema versions
//	codecs_test.go        MessagePack and Protocol Buffers
//	encryption_test.go    fields under a key for each tenant, a key that is destroyed, old events encrypted in place
//	export_test.go        everything that concerns one person
//	filter_test.go        the feed by type, stream and category
//	projections_test.go   a read model in the commits of the events, and a board that is told of what comes
//	telemetry_test.go     metrics for Prometheus and traces for OpenTelemetry
//
// Sagas, with compensation and deadlines, are in examples/fulfilment; everything together is examples/shop.
//
// # Testing
//
// The tests are the examples. Each stands alone, but for the order.
package domains
