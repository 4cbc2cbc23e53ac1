package partition

import (
	"context"
	"time"
)

// Reader is a topic that consumers can read: a topic of a catalog, or one that a [Source] presents.
// The methods are as those of [github.com/mainstemdev/mainstem/topic.Topic].
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

// Shown is a Reader whose records are not stored as a topic, such as the events of an event store.
type Shown interface {
	Reader

	// Contents describes the records, for messages: "the events of a store".
	Contents() string
	// Bound returns an offset that is at least every position at which a reader can be. It may be
	// above the end, which decreases when records at the end are presented no more.
	Bound(ctx context.Context, partition int32) (int64, error)
	// Notify sends to wake, which has capacity 1, when a partition has grown, until stop is called.
	// Records that are committed after Notify has returned are not missed.
	Notify(partition int32, wake chan<- struct{}) (stop func(), err error)
}

// Source presents other contents of a log as topics that can be read. Its methods may be called
// from many goroutines. Topic and ByID fail with NotFound if there is none.
type Source interface {
	// Of describes the contents, for messages: "event stores".
	Of() string
	// Reserved reports whether one of these topics has the name or may get it. No other topic may
	// be created under it.
	Reserved(name string) bool
	Topic(ctx context.Context, name string) (Shown, error)
	ByID(ctx context.Context, id ID) (Shown, error)
	// All returns these topics in the order of their names.
	All(ctx context.Context) ([]Shown, error)
}

// DefaultReadBytes is the default of [ReadOptions].MaxBytes: 1 MiB.
const DefaultReadBytes = 1 << 20

// ReadOptions are options of [Reader].Read. nil and zero fields mean the defaults.
type ReadOptions struct {
	// MaxBytes bounds the bytes of all batches together. The first batch is returned whatever its
	// size, so that a reader makes progress. Default [DefaultReadBytes].
	MaxBytes int
	// MaxFirst bounds the bytes of the first batch. One that is larger is not copied, and the Chunk
	// has its size, so that the reader can reserve memory for it. 0 means no limit.
	MaxFirst int
	// Before excludes batches that begin at this offset or later. It is the last stable offset for
	// a reader that must not see open transactions. 0 means no limit.
	Before int64
	// LeaderEpoch is the partition leader epoch that is written into every batch.
	LeaderEpoch int32
	// Buffer is the slice to which the batches are appended, in its memory if that suffices.
	Buffer []byte
}

// Chunk is the result of [Reader].Read.
type Chunk struct {
	// Data is Buffer followed by whole record batches with their base offsets and leader epoch, as
	// in a Kafka fetch response. The first batch may begin before the offset asked for. Offsets may
	// be missing where compaction has removed records. It belongs to the caller.
	Data []byte
	// TooLarge is about the size in bytes of the first batch if that is more than
	// [ReadOptions].MaxFirst; then Data has no batch. Else it is 0.
	TooLarge int
	// Full means that [ReadOptions].MaxBytes or MaxFirst has left out the batch at Next, or the next
	// one that is there.
	Full bool
	// Next is the offset at which to continue.
	Next int64
	// Start is the partition's first offset. End is its end, if Data reaches it or has no batch;
	// otherwise it is an end that the partition had during the call.
	Start, End int64
}

// Found is a record that was looked up by its timestamp.
type Found struct {
	Offset int64
	Time   time.Time // its timestamp, to the millisecond
}
