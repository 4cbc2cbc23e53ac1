// Package app composes a program of applications, like those of OTP: groups of supervised actors
// that need one another, start in order, and stop in the reverse order.
//
// # Nouns
//
// An [App] has a name, the names of the apps that it needs, and children of a supervisor of its
// own. [Start] starts a [Set] of apps under one supervisor: each after those that it needs. The
// [Mode] of an app, its restart type in OTP, says what the end of the app means for the others.
//
//	set, err := app.Start(node, nil,
//		app.App{Name: "store", Children: []actor.Child{store}},
//		app.App{Name: "web", Needs: []string{"store"}, Children: []actor.Child{server}},
//	)
//	reason, err := actor.Wait(ctx, set.Ref())
//
// # Guarantees
//
// An app starts when all apps that it needs have started: the Start methods of their children have
// returned. It stops before any app that it needs is stopped, whether by [Set.Stop], by the end of
// another app, or because the node stops. If an app fails to start, those that were started before
// it are stopped again, and [Start] returns the error.
//
// An app is never restarted as a whole; the supervisor of an app restarts its children.
//
// # Concurrency and ownership
//
// A Set may be used by any goroutine but those of its own actors while they start or stop. It ends
// with the node or actor that it was spawned from.
//
// # Limits
//
// Names are unique within a Set. Apps cannot be added to a Set that has started; an app can be left
// out at first, with [Options.Only], and started later. When a [Temporary] app, or a [Transient]
// one without a failure, has ended by itself, the apps that need it go on without it.
//
// # Testing
//
// The order of starts and stops is tested with random graphs of needs. An Example starts three
// apps.
//
//snippet:var node *actor.Node
//snippet:var store, server actor.Child
package app
