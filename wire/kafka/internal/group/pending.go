package group

import "github.com/mainstemdev/mainstem/topic"

// Pending finds offsets in open transactions. The Manager of package producer implements it. The
// coordinator calls it from many goroutines, and holds no lock meanwhile.
type Pending interface {
	// Pending reports whether an open transaction has an offset of the group for the partition. If
	// so, the end of the transaction may replace the stored offset.
	Pending(group string, id topic.ID, partition int32) bool
}
