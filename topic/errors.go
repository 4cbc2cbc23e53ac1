package topic

import (
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

// OutOfRangeError says that an offset is outside of the range of a partition. It is the cause of a
// [mainstem.Error] of kind Invalid: find it with errors.As.
type OutOfRangeError struct {
	Topic      string
	Partition  int32
	Offset     int64
	Start, End int64 // the partition has the offsets from Start up to End-1, as far as is known
}

// Error names the offset and the range.
func (e *OutOfRangeError) Error() string {
	return fmt.Sprintf("offset %d of %s/%d is out of range: the partition starts at %d and ends at %d", e.Offset, e.Topic, e.Partition, e.Start, e.End)
}

func (p *partitionState) outOfRange(op string, offset, end int64) error {
	return p.t.fail(mainstem.KindInvalid, op, &OutOfRangeError{Topic: p.t.name, Partition: p.num, Offset: offset, Start: p.start.Load(), End: end})
}

// fail returns an error of the topic with the outcome NotWritten.
func (t *Topic) fail(k mainstem.Kind, op string, err error) *mainstem.Error {
	return &mainstem.Error{Kind: k, Op: op, Space: t.space, Outcome: mainstem.NotWritten, Err: err}
}

func notFound(op, name string) *mainstem.Error {
	return mainstem.Refusef(mainstem.KindNotFound, op, "no such topic").At(Space(name), nil)
}

func closed(op string) *mainstem.Error {
	return mainstem.Refusef(mainstem.KindClosed, op, "the catalog of topics is closed")
}

var errChecksum = errors.New("its CRC-32C is wrong")

func badPolicy(c Config) error {
	return fmt.Errorf("%s is %s", CleanupPolicy, c.Get(CleanupPolicy))
}
