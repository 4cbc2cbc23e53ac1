package topic

import (
	"bytes"
	"time"

	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// Record is one record, as a producer sends it or a consumer receives it.
type Record struct {
	Partition int32     // set by Consume; used by a producer only with [ByPartition]
	Offset    int64     // set by Consume
	Time      time.Time // cut to whole milliseconds; zero: the time at which it is produced
	Key       []byte    // nil is null
	Value     []byte    // nil is null: on a compacted topic, a tombstone
	Headers   []Header
}

// Header is one name and value of a record. Names may repeat.
type Header = recordbatch.Header

// Codec is the compression of record batches.
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

// plain returns r in the form of recordbatch. now, in milliseconds, is the timestamp of a record
// without a time. The bytes are shared.
func (r *Record) plain(now int64) recordbatch.Record {
	ms := now
	if !r.Time.IsZero() {
		ms = r.Time.UnixMilli()
	}
	return recordbatch.Record{Timestamp: ms, Key: r.Key, Value: r.Value, Headers: r.Headers}
}

// consumed returns r, a record of a partition, in the form for consumers. The bytes are shared.
func consumed(partition int32, r recordbatch.Record) Record {
	out := Record{Partition: partition, Offset: r.Offset, Key: r.Key, Value: r.Value, Headers: r.Headers}
	if r.Timestamp != recordbatch.NoTimestamp {
		out.Time = time.UnixMilli(r.Timestamp).UTC()
	}
	return out
}
