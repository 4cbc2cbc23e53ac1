// Package footprint holds the contenders of the footprint suite: the server of this
// module at each durability. To add one, write a file with a function that returns
// its [footprint.Factory], and a line in [Factories].
package footprint

import (
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/footprint"
)

// Factories returns all contenders.
func Factories() []footprint.Factory {
	return []footprint.Factory{mainstem(suite.OS), mainstem(suite.Fsync)}
}

// Suite returns the suite with all contenders.
func Suite() suite.Suite {
	return suite.Suite{
		Name:    footprint.Name,
		About:   "What a server takes: time to start, memory, pauses, disk.",
		Entries: footprint.Entries(Factories()...),
	}
}
