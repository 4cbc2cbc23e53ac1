// Package domains shows the event toolkit feature by feature, in small domains that its tests run:
// orders, products, customers, accounts, users, sensors.
//
//	order.go              an aggregate with its commands, which most of the tests use
//	basic_test.go         an aggregate, its stream, and what the store shows of it
//	bdd_test.go           rules of a domain as given, when, then; without a log
//	cqrs_test.go          commands through middleware, on every engine
//	audit_test.go         the audit trail, with failed commands
//	versioning_test.go    events of three schema versions, and upcasting
//	codecs_test.go        MessagePack and Protocol Buffers
//	encryption_test.go    fields under a key for each tenant, crypto-shredding, encrypting old events in place
//	export_test.go        all events that concern one person
//	filter_test.go        the feed by type, stream and category
//	projections_test.go   an inline projection, and a live one for a dashboard
//	telemetry_test.go     metrics for Prometheus and traces for OpenTelemetry
//
// Sagas, with compensation and deadlines, are in examples/fulfilment; all features together are in
// examples/shop.
//
// # Testing
//
// The tests are the examples. They do not depend on each other, except for order.go.
package domains
