// Package event holds the contenders of the event suite, one in each file. To add
// one, write a file with a function that returns its [event.Factory], and a line in
// [Factories].
package event

import (
	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/event"
)

// slowScale is how many events the scale tests append where each append waits for
// a disk or a network.
const slowScale = 100_000

// Factories returns all contenders, of Mainstem and of the peers those first that have
// the shortest way to their data: they are the ones that run when time is short.
func Factories() []event.Factory {
	return append(mainstemLogs(),
		mapMemory(),
		pebbleDB("memory", suite.Memory), pebbleDB("nosync", peers.Unsynced), pebbleDB("fsync", suite.Fsync),
		badgerDB("memory", suite.Memory), badgerDB("os", suite.OS), badgerDB("fsync", suite.Fsync),
		boltDB("os", suite.OS), boltDB("fsync", suite.Fsync),
		jetStream("os", engines.NATS, suite.OS), jetStream("fsync", engines.NATSSync, suite.Fsync),
		postgresPerEvent(),
	)
}

// Suite returns the suite with all contenders.
func Suite() suite.Suite {
	return suite.Suite{
		Name:    event.Name,
		About:   "Event stores: appends, loads, feeds, subscriptions, contention, recovery and disk.",
		Entries: event.Entries(Factories()...),
		Servers: engines.Servers(),
	}
}
