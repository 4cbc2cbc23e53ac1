package recordbatch

import (
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// RecordOverhead is the most that a record takes besides the bytes of its key,
// value and headers; each header takes up to HeaderOverhead more.
const (
	RecordOverhead = 5 + 1 + 10 + 5 + 5 + 5 + 5
	HeaderOverhead = 5 + 5
)

// Size returns the most that r can take in a batch, in bytes.
func (r *Record) Size() int {
	n := RecordOverhead + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += HeaderOverhead + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// Builder makes a record batch. The zero Builder is ready, and so is one that
// was Reset: it keeps its memory.
type Builder struct {
	buf   []byte // room for the header, then the records
	out   []byte // the compressed batch
	count int32
	first int64 // timestamp of the first record
	max   int64
}

// Append adds a record. The bytes are copied. Offset is ignored: offsets follow
// the order of the calls.
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

// Size returns the bytes of the batch so far, uncompressed.
func (b *Builder) Size() int {
	if b.count == 0 {
		return HeaderSize
	}
	return len(b.buf)
}

// Reset empties the builder and keeps its memory, which the batch that Finish
// returned aliases.
func (b *Builder) Reset() { *b = Builder{buf: b.buf[:0], out: b.out[:0]} }

// Finish returns the batch, of at least one record, compressed with c; with no
// codec if compressing it would not make it smaller. Its base offset is 0 and it
// has no producer. The bytes belong to the builder until Reset.
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

// finish writes header h, its length and its CRC over the first bytes of batch.
func finish(h kmsg.RecordBatch, batch []byte) []byte {
	h.Length = int32(len(batch) - lengthPrefix)
	h.Records = nil
	h.AppendTo(batch[:0])
	seal(batch)
	return batch
}

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

// lenOf returns the bytes that the nullable b takes with its length.
func lenOf(b []byte) int {
	if b == nil {
		return kbin.VarintLen(-1)
	}
	return kbin.VarintLen(int32(len(b))) + len(b)
}

// Marker is the end of a transaction, written by the broker into every
// partition that the transaction wrote to.
type Marker struct {
	ProducerID       int64
	ProducerEpoch    int16
	Commit           bool // else abort
	CoordinatorEpoch int32
	Timestamp        int64 // milliseconds
}

// Versions of a marker's key and value: 2 bytes before the type and before the
// coordinator epoch.
const (
	markerAbort  = 0
	markerCommit = 1
	markerKeyLen = 4
)

// Batch returns the control batch that holds m.
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

// Committed reports whether the control batch b ends its transaction with
// commit. ok is false if it is no transaction marker.
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
