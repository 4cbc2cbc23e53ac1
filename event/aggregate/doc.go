// Package aggregate loads aggregates from their event streams, lets them decide, and appends the
// events of their decisions. An aggregate is state that is computed from the events of one stream.
//
// # Two forms
//
// An [Aggregate] is a struct with methods. It embeds [Root]. Its methods decide and [Raise] events;
// Apply changes the state:
//
//	type Order struct {
//		aggregate.Root
//		Total int
//		Paid  bool
//	}
//
//	func (o *Order) Apply(ev any) error {
//		switch ev := ev.(type) {
//		case OrderPlaced:
//			o.Total = ev.Total
//		case OrderPaid:
//			o.Paid = true
//		}
//		return nil
//	}
//
//	func (o *Order) Pay() error {
//		if o.Paid {
//			return errors.New("paid already")
//		}
//		return aggregate.Raise(o, OrderPaid{})
//	}
//
// A [Decider] expresses the same domain as pure functions: Decide returns the events for a state
// and a command, and Evolve returns the state after an event. [Deciders.Handle] handles commands.
//
// # Loading and saving
//
// A [Repository] stores the aggregates of one category in the streams "category-id" of an
// [event.Store]. The Go types of the events are registered with an [event.Types], which also
// upcasts events of older schema versions. [Repository.Update] loads an aggregate, calls a function
// that decides, and saves; after a conflict with another writer it does all three again.
// [Repository.SaveTo] and [Repository.UpdateTo] write into a batch, so that other writes can be
// committed together with the events. With [Options.Inline], every save also writes the rows of the
// store's inline projections (see package projection), in the same commit.
//
// # Guarantees
//
// Optimistic concurrency: a save expects the stream to be at the version that was loaded. Of two
// decisions on the same version only the first is written; the other is a conflict.
//
// No double appends: if the outcome of a commit is unknown, Save, Update and Handle commit the same
// batch again under the same batch ID, until the outcome is known or the context ends.
//
// No empty writes: a save of an aggregate without uncommitted events writes nothing.
//
// Snapshots: a snapshot is written in the commit of the event that makes it due. Only snapshots of
// the repository's own [Options.SnapshotVersion] and codec are read. A snapshot is an optimisation:
// the events alone give the same state.
//
// # Concurrency
//
// A Repository and Deciders are safe for concurrent use. An aggregate belongs to one goroutine.
//
//snippet:import "errors"
//snippet:type OrderPlaced struct{ Total int }
//snippet:type OrderPaid struct{}
package aggregate
