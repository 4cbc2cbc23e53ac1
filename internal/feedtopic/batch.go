package feedtopic

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// BatchBytes is where a batch ends and the next begins. A larger record is in a batch
// of its own.
const BatchBytes = 256 << 10

// maxSpan bounds the offsets of a batch, gaps included.
const maxSpan = recordbatch.MaxRecords

// Places in a batch, see the Kafka documentation, "Record Batch".
const (
	lengthPrefix = 12 // base offset and length: what the length does not count
	atCRC        = 17
)

// builder appends record batches whose offsets have gaps to data. Set data and epoch,
// add records in order, then finish.
type builder struct {
	data  []byte
	epoch int32

	open          bool // a batch is being built
	at            int  // where it begins in data
	count         int32
	base, last    int64  // offsets of its first and last record
	first, newest int64  // timestamps
	record        []byte // scratch
}

// add appends r, unless the data behind from would then be more than limit bytes and
// there is some already; it reports whether it did.
func (b *builder) add(r *Record, from, limit int) bool {
	offset, ms := int64(r.Position), r.Time.UnixMilli()
	if b.open && offset-b.base >= maxSpan {
		b.close()
	}
	if b.open {
		b.encode(r, ms-b.first, int32(offset-b.base))
		if len(b.data)-b.at+len(b.record) > BatchBytes {
			b.close()
		}
	}
	start := len(b.data)
	if !b.open {
		b.begin(offset, ms)
		b.encode(r, 0, 0)
	}
	if start > from && len(b.data)-from+len(b.record) > limit {
		if b.count == 0 {
			b.data, b.open = b.data[:start], false
		}
		return false
	}
	b.data = append(b.data, b.record...)
	b.count++
	b.last, b.newest = offset, max(b.newest, ms)
	return true
}

// begin opens a batch whose first record has the given offset and timestamp.
func (b *builder) begin(offset, ms int64) {
	b.open, b.at, b.count = true, len(b.data), 0
	b.base, b.last, b.first, b.newest = offset, offset, ms, ms
	b.data = append(b.data, make([]byte, recordbatch.HeaderSize)...)
}

// close writes the header of the batch that is open.
func (b *builder) close() {
	if !b.open {
		return
	}
	b.open = false
	batch := b.data[b.at:]
	h := kmsg.RecordBatch{
		FirstOffset:          b.base,
		Length:               int32(len(batch) - lengthPrefix),
		PartitionLeaderEpoch: b.epoch,
		Magic:                2,
		LastOffsetDelta:      int32(b.last - b.base),
		FirstTimestamp:       b.first,
		MaxTimestamp:         b.newest,
		ProducerID:           -1,
		ProducerEpoch:        -1,
		FirstSequence:        -1,
		NumRecords:           b.count,
	}
	h.AppendTo(batch[:0])
	binary.BigEndian.PutUint32(batch[atCRC:], recordbatch.Checksum(batch))
}

// batchSize returns about how many bytes a batch of r alone has, never less.
func batchSize(r *Record) int {
	const numbers = 10 // the most that a length or another number takes
	n := recordbatch.HeaderSize + 6*numbers + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += 2*numbers + len(h.Name) + len(h.Value)
	}
	return n
}

// encode writes one record into b.record, see the Kafka documentation, "Record".
func (b *builder) encode(r *Record, timeDelta int64, offsetDelta int32) {
	n := 1 + kbin.VarlongLen(timeDelta) + kbin.VarintLen(offsetDelta) +
		textLen(len(r.Key)) + textLen(len(r.Value)) + kbin.VarintLen(int32(len(r.Headers)))
	if r.Value == nil {
		n += kbin.VarintLen(-1) - textLen(0)
	}
	for _, h := range r.Headers {
		n += textLen(len(h.Name)) + textLen(len(h.Value))
	}
	p := kbin.AppendVarint(b.record[:0], int32(n))
	p = append(p, 0) // attributes: none is defined
	p = kbin.AppendVarlong(p, timeDelta)
	p = kbin.AppendVarint(p, offsetDelta)
	p = kbin.AppendVarintString(p, r.Key)
	p = kbin.AppendVarintBytes(p, r.Value)
	p = kbin.AppendVarint(p, int32(len(r.Headers)))
	for _, h := range r.Headers {
		p = kbin.AppendVarintString(p, h.Name)
		p = kbin.AppendVarintString(p, h.Value)
	}
	b.record = p
}

// textLen returns the bytes that n bytes take with their length.
func textLen(n int) int { return kbin.VarintLen(int32(n)) + n }
