package event

import (
	"fmt"
	"math"

	"github.com/mainstemdev/mainstem"
)

// Expected is the expectation that an append has of its stream: an exact version, or one of the
// constants. Numbers above 0 are versions; numbers below -2 are Invalid.
type Expected int64

// The expectations besides [AtVersion].
const (
	NoStream     Expected = 0  // the stream has no events: it was never written, was deleted or forgotten
	AnyVersion   Expected = -1 // no expectation
	StreamExists Expected = -2 // the stream has at least one event
)

// AtVersion returns the expectation that the newest version of the stream is v. AtVersion(0) is
// [NoStream].
func AtVersion(v mainstem.Version) Expected {
	if v > math.MaxInt64 {
		return math.MinInt64 // out of range: the append returns Invalid
	}
	return Expected(v)
}

// String returns "any version", "no stream", "stream exists" or "version 7".
func (e Expected) String() string {
	switch e {
	case NoStream:
		return "no stream"
	case AnyVersion:
		return "any version"
	case StreamExists:
		return "stream exists"
	}
	return fmt.Sprintf("version %d", int64(e))
}

func (e Expected) check(op string) error {
	if e < StreamExists {
		return mainstem.Refusef(mainstem.KindInvalid, op, "expected version %d: want a version from 1, or NoStream (0), AnyVersion (-1) or StreamExists (-2)", int64(e))
	}
	return nil
}

// addCondition adds to b the condition on key that e stands for.
func (e Expected) addCondition(b *mainstem.Batch, space string, key []byte) {
	switch e {
	case AnyVersion:
	case NoStream:
		b.IfAbsent(space, key)
	case StreamExists:
		b.IfExists(space, key)
	default:
		b.IfVersion(space, key, mainstem.Version(e))
	}
}

// expectedOf is the inverse of addCondition.
func expectedOf(c mainstem.Condition) Expected {
	switch c.Test {
	case mainstem.TestAbsent:
		return NoStream
	case mainstem.TestExists:
		return StreamExists
	}
	return AtVersion(c.Version)
}
