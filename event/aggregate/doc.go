// Package aggregate loads, decides and saves: the part of event sourcing that a domain
// programmer writes against. An aggregate is the state that the events of one stream add up to.
//
// # Two forms
//
// An [Aggregate] is a struct with methods. It embeds [Root], its methods [Raise] events, and
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
// A [Decider] is the same domain as pure functions: Decide returns events for a state and
// a command, Evolve the state after an event. [Deciders.Handle] takes the commands.
//
// # Loading and saving
//
// A [Repository] keeps aggregates in the streams "category-id" of an [event.Store]; the Go types
// of their events are registered with an [event.Types], which also brings old events up to date.
// [Repository.Update] is load, decide, save; after a conflict with another writer it decides anew.
// [Repository.SaveTo] and [Repository.UpdateTo] write into a batch, beside whatever else is to become true with it;
// with [Options.Inline], inline projections of package projection are in the commit of every save.
//
// # Guarantees
//
// A save appends on condition of the version that was loaded: of two decisions on one
// state only the first is kept. Nothing is raised, nothing is written. If the outcome of a commit is
// unknown, the same commit is repeated, under the same batch ID, until it is known or the context ends:
// an event is never appended twice. A snapshot is in the same commit as the event
// that makes it due, and is read only in the form that the repository was opened with; loading the
// aggregate from events alone gives the same state.
//
// # Concurrency
//
// Repositories and deciders are safe for concurrent use. An aggregate belongs to one goroutine.
//
//snippet:import "errors"
//snippet:type OrderPlaced struct{ Total int }
//snippet:type OrderPaid struct{}
package aggregate
