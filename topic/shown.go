package topic

import (
	"context"
	"time"
)

// Reader is a topic as consumers see it: a [*Topic], or what a [Source] shows as one. The
// methods are those of [Topic].
type Reader interface {
	Name() string
	ID() ID
	Partitions() int32
	Start(ctx context.Context, partition int32) (int64, error)
	End(ctx context.Context, partition int32) (int64, error)
	Read(ctx context.Context, partition int32, offset int64, o *ReadOptions) (Chunk, error)
	OffsetForTime(ctx context.Context, partition int32, at time.Time) (Found, bool, error)
	MaxTimestamp(ctx context.Context, partition int32) (Found, bool, error)
}

// Shown is a Reader that shows what is no topic of its own, such as an event store.
type Shown interface {
	Reader

	// Contents says what the records are, for messages: "the events of a store".
	Contents() string
	// Bound returns the offset that no reader can be behind. It may lie behind the end,
	// which goes back when what was there is not shown any more.
	Bound(ctx context.Context, partition int32) (int64, error)
	// Notify sends to wake, which has capacity 1, when a partition has grown, until
	// stop is called. What is committed after Notify has returned is not missed.
	Notify(partition int32, wake chan<- struct{}) (stop func(), err error)
}

// Source shows what a log holds besides topics as topics that can be read. Its methods may
// be called from many goroutines, and return NotFound for what is not there.
type Source interface {
	// Of says what is shown, for messages: "event stores".
	Of() string
	// Reserved reports whether name is one that something shown has or may get: no topic
	// may be created under it.
	Reserved(name string) bool
	Topic(ctx context.Context, name string) (Shown, error)
	ByID(ctx context.Context, id ID) (Shown, error)
	// All returns all that is shown, in the order of the names.
	All(ctx context.Context) ([]Shown, error)
}
