// Package domain is the suite of workloads for toolkits of event sourcing: aggregates that are saved as
// events and made of them again, and commands on their way to them.
//
// # Nouns
//
// A [Domain] is what a contender must do: orders whose items are events, and a bus that takes the command
// to add an item. A [Factory] opens one and says how durable its commits are. To measure your own:
//
//	func BenchmarkDomains(b *testing.B) {
//		domain.Run(b, domain.Factory{Name: "mine", Durability: suite.Fsync, Open: open})
//	}
//
// # Workloads
//
// An event is JSON of about 40 bytes, decoded into its Go type when it is read.
//
//	aggregate/save/…      a new order of 1, 5, 10 and 50 events
//	aggregate/load/…      an order of 10, 100, 1,000 and 10,000 events, made of all of them
//	aggregate/snapshot    an order of 1,001 events, made of a snapshot
//	aggregate/life-cycle  save three events, load, add one, save
//	command/bare          a command whose handler does nothing
//	command/validation    the same, validated
//	command/pipeline      the same through validation, recovery, correlation and causation
//	command/aggregate     a command that loads an order of one event, adds an item and saves it
//	command/full          the same through the pipeline, with a record of its ID and a row in a trail
//	command/8-workers     command/aggregate from 8 goroutines, each on an order of its own
//	scale/…               a million commands through the pipeline; loads of 100,000 events
//
// # Guarantees
//
// A round begins with new orders. Checks are not timed: orders are loaded again, with the number of their
// items, their price and their version.
//
// # Concurrency and ownership
//
// A domain is called from as many goroutines as the case has clients.
//
// # Testing
//
// The tests have domains that cheat, and expect that each is caught.
//
//snippet:var open = domain.Factory{}.Open
package domain
