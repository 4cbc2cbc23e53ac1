package topic

import (
	"bytes"
	"time"

	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// Record is one record as a producer gives it or a consumer gets it.
type Record struct {
	Partition int32     // set by the consumer; a producer looks at it only with [ByPartition]
	Offset    int64     // set by the consumer
	Time      time.Time // to the millisecond; zero: when it is produced
	Key       []byte    // nil is null
	Value     []byte    // nil is null: on a compacted topic, a tombstone
	Headers   []Header
}

// Header is one name and value of a record. Names may repeat.
type Header = recordbatch.Header

// Codec is how record batches are compressed.
type Codec = recordbatch.Codec

// The codecs.
const (
	Uncompressed = recordbatch.None
	Gzip         = recordbatch.Gzip
	Snappy       = recordbatch.Snappy
	LZ4          = recordbatch.LZ4
	Zstd         = recordbatch.Zstd
)

// Clone returns a copy of r that shares no memory with it.
func (r Record) Clone() Record {
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	r.Headers = recordbatch.CloneHeaders(r.Headers)
	return r
}

// plain returns r as recordbatch takes it, produced at now if it has no time.
func (r *Record) plain(now int64) recordbatch.Record {
	ms := now
	if !r.Time.IsZero() {
		ms = r.Time.UnixMilli()
	}
	return recordbatch.Record{Timestamp: ms, Key: r.Key, Value: r.Value, Headers: r.Headers}
}

// consumed returns the record of a partition.
func consumed(partition int32, r recordbatch.Record) Record {
	out := Record{Partition: partition, Offset: r.Offset, Key: r.Key, Value: r.Value, Headers: r.Headers}
	if r.Timestamp != recordbatch.NoTimestamp {
		out.Time = time.UnixMilli(r.Timestamp).UTC()
	}
	return out
}
