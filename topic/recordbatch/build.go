package recordbatch

import (
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// RecordOverhead is the most bytes that a record takes besides its key, value and headers.
// HeaderOverhead is the most that a header takes besides its key and value.
const (
	RecordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 5
	HeaderOverhead = 5 + 5
)

// Size returns the most bytes that r can take in a batch, uncompressed.
func (r *Record) Size() int {
	n := RecordOverhead + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += HeaderOverhead + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// Builder builds record batches, one after the other. The zero Builder is empty and ready. Reset
// empties it for the next batch and keeps its memory.
type Builder struct {
	buf   []byte // HeaderSize bytes for the header, then the records; empty without records
	out   []byte // the compressed batch, after Finish
	count int32  // of records
	first int64  // timestamp of the first record
	max   int64  // the newest timestamp
}

// Append adds a copy of a record. Its Offset is ignored: offset deltas follow the order of the
// calls.
func (b *Builder) Append(r *Record) {
	if b.count == 0 {
		b.buf = slices.Grow(b.buf[:0], HeaderSize)[:HeaderSize]
		b.first, b.max = r.Timestamp, r.Timestamp
	}
	b.max = max(b.max, r.Timestamp)
	b.buf = appendRecord(b.buf, r, r.Timestamp-b.first, b.count)
	b.count++
}

// Len returns the number of records.
func (b *Builder) Len() int { return int(b.count) }

// Size returns the bytes of the batch so far, with its header, uncompressed.
func (b *Builder) Size() int {
	if b.count == 0 {
		return HeaderSize
	}
	return len(b.buf)
}

// Reset empties the builder. It keeps its memory, so a batch that Finish has returned must not be
// used any more.
func (b *Builder) Reset() { *b = Builder{buf: b.buf[:0], out: b.out[:0]} }

// Finish returns the batch, compressed with c, or uncompressed if that is not larger. There must be
// at least one record. The base offset is 0, the leader epoch and the producer are -1 (none). The
// bytes belong to the builder and are valid until Reset.
func (b *Builder) Finish(c Codec) ([]byte, error) {
	h := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1,
		Magic:                2,
		LastOffsetDelta:      b.count - 1,
		FirstTimestamp:       b.first,
		MaxTimestamp:         b.max,
		ProducerID:           -1,
		ProducerEpoch:        -1,
		FirstSequence:        -1,
		NumRecords:           b.count,
	}
	if c != None {
		b.out = slices.Grow(b.out[:0], HeaderSize)[:HeaderSize]
		var err error
		if b.out, err = compress(b.out, b.buf[HeaderSize:], c); err != nil {
			return nil, err
		}
		if len(b.out) < len(b.buf) {
			h.Attributes = int16(c)
			return finish(h, b.out), nil
		}
	}
	return finish(h, b.buf), nil
}

// finish writes the header h, with the right length and CRC, over the first HeaderSize bytes of
// batch.
func finish(h kmsg.RecordBatch, batch []byte) []byte {
	h.Length = int32(len(batch) - lengthPrefix)
	h.Records = nil
	h.AppendTo(batch[:0])
	seal(batch)
	return batch
}

// appendRecord appends the encoded record r to dst.
func appendRecord(dst []byte, r *Record, timeDelta int64, offsetDelta int32) []byte {
	n := 1 + kbin.VarlongLen(timeDelta) + kbin.VarintLen(offsetDelta) +
		lenOf(r.Key) + lenOf(r.Value) + kbin.VarintLen(int32(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		n += kbin.VarintLen(int32(len(h.Key))) + len(h.Key) + lenOf(h.Value)
	}
	dst = kbin.AppendVarint(dst, int32(n))
	dst = append(dst, 0) // attributes: none is defined
	dst = kbin.AppendVarlong(dst, timeDelta)
	dst = kbin.AppendVarint(dst, offsetDelta)
	dst = kbin.AppendVarintBytes(dst, r.Key)
	dst = kbin.AppendVarintBytes(dst, r.Value)
	dst = kbin.AppendVarint(dst, int32(len(r.Headers)))
	for i := range r.Headers {
		dst = kbin.AppendVarintString(dst, r.Headers[i].Key)
		dst = kbin.AppendVarintBytes(dst, r.Headers[i].Value)
	}
	return dst
}

// lenOf returns the bytes that b, which may be nil, takes with its length.
func lenOf(b []byte) int {
	if b == nil {
		return kbin.VarintLen(-1)
	}
	return kbin.VarintLen(int32(len(b))) + len(b)
}

// Marker ends a transaction. The broker writes one into every partition that the transaction has
// written to.
type Marker struct {
	ProducerID       int64
	ProducerEpoch    int16
	Commit           bool // else abort
	CoordinatorEpoch int32
	Timestamp        int64 // milliseconds since 1970
}

// The record of a marker, big-endian. Versions are 0.
//
//	key    2 bytes version, 2 bytes type: markerAbort or markerCommit
//	value  2 bytes version, 4 bytes coordinator epoch
const (
	markerAbort  = 0
	markerCommit = 1
	markerKeyLen = 4
)

// Batch returns the control batch of m, of one record. The bytes belong to the caller.
func (m Marker) Batch() []byte {
	key := make([]byte, markerKeyLen) // version 0
	if m.Commit {
		key[3] = markerCommit
	}
	value := binary.BigEndian.AppendUint32(make([]byte, 2), uint32(m.CoordinatorEpoch))
	batch := appendRecord(make([]byte, HeaderSize, 96), &Record{Key: key, Value: value}, 0, 0)
	return finish(kmsg.RecordBatch{
		PartitionLeaderEpoch: -1,
		Magic:                2,
		Attributes:           transactionBit | controlBit,
		FirstTimestamp:       m.Timestamp,
		MaxTimestamp:         m.Timestamp,
		ProducerID:           m.ProducerID,
		ProducerEpoch:        m.ProducerEpoch,
		FirstSequence:        -1,
		NumRecords:           1,
	}, batch)
}

// Committed returns the type of the transaction marker b: commit, or else abort. ok is false if b
// is no transaction marker.
func (b *Batch) Committed() (commit, ok bool) {
	var r raw
	if !b.Control() || b.Codec() != None {
		return false, false
	}
	if _, err := r.split(b.Records); err != nil || len(r.key) < markerKeyLen {
		return false, false
	}
	kind := binary.BigEndian.Uint16(r.key[2:])
	return kind == markerCommit, kind == markerCommit || kind == markerAbort
}
