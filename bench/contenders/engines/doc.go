// Package engines opens Mainstem's engines for the contenders of all suites: every
// engine at each durability it offers, under one name everywhere, and the servers
// that some of them talk to.
//
// # Nouns
//
// An [Engine] opens a log for one entry. Its name says the engine and the
// durability: mainstem-pebble-fsync. [All] lists them. A server that an engine
// needs is one of [Servers], which a suite hands to the runner.
//
//	for _, e := range engines.All() {
//		factories = append(factories, kv.Factory{Name: e.Name, Durability: e.Durability, Skip: e.Skip, Open: open})
//	}
//
// # Guarantees
//
// Every engine is opened with its default options but for the durability: what is
// measured is what a user gets. Closing a log stops the server that was started for it.
//
// # Concurrency and ownership
//
// An engine may be opened any number of times; each log belongs to its caller.
//
//snippet:import "github.com/mainstemdev/mainstem/bench/suites/kv"
//snippet:var factories []kv.Factory
//snippet:var open = kv.Factory{}.Open
package engines
