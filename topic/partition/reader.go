package partition

import (
	"context"
	"time"
)

// Reader is a topic as consumers see it: a topic of a catalog, or what a [Source] shows as one.
// The methods are those of [github.com/mainstemdev/mainstem/topic.Topic].
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

// DefaultReadBytes is how much Read returns when the caller does not say.
const DefaultReadBytes = 1 << 20

// ReadOptions says how much [Reader].Read returns. nil and the zero value mean
// the defaults.
type ReadOptions struct {
	// MaxBytes bounds the bytes of all batches together, but for the first, which is
	// returned whatever its size so that a reader always gets on. Default
	// [DefaultReadBytes].
	MaxBytes int
	// MaxFirst bounds the first batch: one that is larger is not copied, and the Chunk says
	// how large it is, so that a reader can see to its memory first. 0 means no limit.
	MaxFirst int
	// Before leaves out batches that begin at this offset or later: the last stable
	// offset, for a reader that must not see open transactions. 0 means no limit.
	Before int64
	// LeaderEpoch is written into every batch.
	LeaderEpoch int32
	// Buffer is appended to; its memory is used again where it suffices.
	Buffer []byte
}

// Chunk is what [Reader].Read found.
type Chunk struct {
	// Data is the buffer given, followed by whole record batches with their base
	// offsets and leader epoch in place, as a Kafka fetch response carries them. The
	// first may begin before the offset asked for, and offsets may be missing where
	// compaction removed records. It belongs to the caller.
	Data []byte
	// TooLarge is the size in bytes of the first batch, about, if that is more than
	// [ReadOptions].MaxFirst. Then no batch is in Data. Else 0.
	TooLarge int
	// Next is the offset to go on from.
	Next int64
	// Start and End are the partition's first offset and, if Data reaches it or there
	// is no more, its end; otherwise an end that it had at some moment of the call.
	Start, End int64
}

// Found is a record that was looked for by its timestamp.
type Found struct {
	Offset int64
	Time   time.Time // its timestamp
}
