// Package alert holds the contenders of the alert suite, one in each file. To add
// one, write a file with a function that returns its [alert.Factory], and a line in
// [Factories].
package alert

import (
	"slices"

	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/alert"
)

// Factories returns all contenders.
func Factories() []alert.Factory {
	return slices.Concat(inProcess(), overHTTP(), []alert.Factory{address()})
}

// Suite returns the suite with all contenders.
func Suite() suite.Suite {
	return suite.Suite{
		Name:    alert.Name,
		About:   "Alert tables of two clusters: inserts, inserts of what is there, and selects, by one client and ten.",
		Entries: alert.Entries(Factories()...),
		Servers: httpServers(),
	}
}

// embedded are the engines that object servers are measured on: the query is
// answered from memory whatever the engine, so the others would show the engine only.
func embedded() []engines.Engine {
	return slices.DeleteFunc(engines.All(), func(e engines.Engine) bool { return e.Server })
}
