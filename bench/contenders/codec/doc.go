// Package codec holds the contenders of the codec suite, one in each file. To add
// one, write a file with a function that returns its [codec.Factory], and a line in
// [Factories].
package codec

import (
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/codec"
)

// Factories returns all contenders.
func Factories() []codec.Factory {
	return []codec.Factory{
		binaryCoder(), binaryRegistry(), binaryAny(),
		vtprotobuf(), protobuf(),
		gobStream(), gobFresh(), msgPack(), cborRFC8949(), jsonStd(),
	}
}

// Suite returns the suite with all contenders.
func Suite() suite.Suite {
	return suite.Suite{
		Name:    codec.Name,
		About:   "Encode and decode eight shapes of messages between actors.",
		Entries: codec.Entries(Factories()...),
	}
}
