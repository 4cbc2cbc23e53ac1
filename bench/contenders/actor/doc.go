// Package actor holds the contenders of the actor suite, one in each file. To add
// one, write a file with a function that returns its [actor.Factory], and a line in
// [Factories].
package actor

import (
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/actor"
)

// Factories returns all contenders.
func Factories() []actor.Factory {
	return []actor.Factory{mainstem(), mainstemTLS(), channel(), rawTCP()}
}

// Suite returns the suite with all contenders.
func Suite() suite.Suite {
	return suite.Suite{
		Name:    actor.Name,
		About:   "Messages between actors, local and over the network, and what an idle one takes.",
		Entries: actor.Entries(Factories()...),
	}
}
