// Package stream holds the contenders of the stream suite, one in each file. To add
// one, write a file with a function that returns its [stream.Factory], and a line in
// [Factories].
package stream

import (
	"github.com/mainstemdev/mainstem/bench/contenders/peers"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/stream"
)

// Factories returns all contenders.
func Factories() []stream.Factory {
	fs := embedded()
	fs = append(fs, servedMainstem()...)
	return append(fs,
		rawPebble("nosync", peers.Unsynced), rawPebble("fsync", suite.Fsync),
		bolt("os", suite.OS), bolt("fsync", suite.Fsync),
		kfakeMemory(), kfakeFsync(), kafka("os", suite.OS), kafka("fsync", suite.Fsync),
		jetStream("os", suite.OS), jetStream("fsync", suite.Fsync),
		mainstemFrames(), kmsgFrames(), streamBusFrames(),
	)
}

// Suite returns the suite with all contenders.
func Suite() suite.Suite {
	return suite.Suite{
		Name:    stream.Name,
		About:   "Producers and consumers, the bytes of the protocol, and the storage below.",
		Entries: stream.Entries(Factories()...),
		Servers: servers(),
	}
}
