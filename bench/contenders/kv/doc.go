// Package kv holds the contenders of the kv suite, one in each file. To add one,
// write a file with a function that returns its [kv.Factory], and a line in
// [Factories].
package kv

import (
	"github.com/mainstemdev/mainstem/bench/contenders/engines"
	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/kv"
)

// slowScale is how many keys the scale tests write where each write waits for a
// disk or a network.
const slowScale = 100_000

// Factories returns all contenders, of Mainstem and of the peers those first that have
// the shortest way to their data: they are the ones that run when time is short.
func Factories() []kv.Factory {
	return append(mainstemLogs(),
		pebbleDB("memory", suite.Memory), pebbleDB("nosync", peers.Unsynced), pebbleDB("fsync", suite.Fsync),
		badgerDB("memory", suite.Memory), badgerDB("os", suite.OS), badgerDB("fsync", suite.Fsync),
		boltDB("os", suite.OS), boltDB("fsync", suite.Fsync),
		natsViews("os", engines.NATS, suite.OS), natsViews("fsync", engines.NATSSync, suite.Fsync),
		natsKeyValue("os", engines.NATS, suite.OS), natsKeyValue("fsync", engines.NATSSync, suite.Fsync),
		postgresTable(),
		redisHash("memory", suite.Memory), redisHash("interval", suite.Interval), redisHash("fsync", suite.Fsync),
		etcdKeys(),
	)
}

// Suite returns the suite with all contenders.
func Suite() suite.Suite {
	return suite.Suite{
		Name:    kv.Name,
		About:   "Key-value tables: reads, writes, lists, large values, compare-and-set and watches.",
		Entries: kv.Entries(Factories()...),
		Servers: engines.Servers(),
	}
}
