// Package alert is the suite of workloads for alert tables: the scenarios of a
// benchmark of the OMNIbus query coordinator, against two clusters.
//
// # Nouns
//
// A [Server] is what a contender must do: carry out a statement in ObjectServer SQL
// on every cluster and return an [Answer] of each. A [Factory] opens servers. To
// measure your own:
//
//	func BenchmarkAlerts(b *testing.B) {
//		alert.Run(b, alert.Factory{Name: "mine", Durability: suite.Fsync, Open: open})
//	}
//
// # Workloads
//
// An operation is 100 or 10 statements, each on both clusters, by one client
// (single) or by ten that share them (multi). The statements have the 13 columns, and
// the blanks around names and dots, of the original's query builder.
//
//	insert           100 INSERTs of new alerts
//	insert-again     100 INSERTs of alerts that are there: each adds 1 to Tally
//	select-10x100    100 SELECTs that find 10 alerts each
//	select-100x10    10 SELECTs that find 100 alerts each
//
// The original inserts the same 100 alerts in every iteration, so that all but the
// first are of the second kind; here each kind is a case.
//
// # Guarantees
//
// All contenders get the same statements, made before the clock runs. Answers are
// kept and compared after it stopped: what was inserted is read back with all columns and
// its Tally, from each cluster; what is selected changes between rounds.
//
// # Concurrency and ownership
//
// A server is called from as many goroutines as the case has clients.
//
// # Testing
//
// The tests have servers that cheat, and expect that each is caught.
//
//snippet:var open = alert.Factory{}.Open
package alert
