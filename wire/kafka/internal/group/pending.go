package group

import "github.com/mainstemdev/mainstem/topic"

// Pending shows offsets in open transactions. No lock is held while it is
// asked.
type Pending interface {
	// Pending reports whether an open transaction holds an offset of the group for
	// the partition: then what is stored may change without the group doing anything.
	Pending(group string, id topic.ID, partition int32) bool
}
