// Package app puts a program together from applications: groups of supervised actors
// that need one another, start in order, and stop in the reverse order.
//
// # Nouns
//
// An [App] is a name, the names of those that it needs, and the children of a supervisor
// of its own. [Start] starts a [Set] of them under one supervisor: each after those that it
// needs. The [Mode] of an app says what its end means for the others.
//
//	set, err := app.Start(node, nil,
//		app.App{Name: "store", Children: []actor.Child{store}},
//		app.App{Name: "web", Needs: []string{"store"}, Children: []actor.Child{server}},
//	)
//	reason, err := actor.Wait(ctx, set.Ref())
//
// # Guarantees
//
// An app starts when all that it needs have started: their children's Start methods have
// returned. It stops before any of those that it needs stops, whether by [Set.Stop], by the
// end of another app, or because the node stops. If an app does not start, those that were
// started before it are stopped again, and the error is returned.
//
// # Concurrency and ownership
//
// A Set may be used by any goroutine but those of its own actors while they start or
// stop. It ends with the node or actor that it was spawned from.
//
// # Limits
//
// Names are unique within a Set. Apps cannot be added to a Set that has started; an app
// can be left out at first, with [Options.Only], and started later. When an app that is
// [Temporary] has ended, those that need it go on, until it is started again.
//
// # Testing
//
// The order of starts and stops is tested against random graphs of needs.
//
//snippet:var node *actor.Node
//snippet:var store, server actor.Child
package app
