package recordbatch

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
)

// Rewriter removes records from batches, as compaction does. The zero Rewriter is ready. It keeps
// its buffers for the next batch, until Reset.
type Rewriter struct {
	// Decoder decodes the batches. Its Room is called for the buffers of the rewriter, too.
	Decoder
	body []byte // HeaderSize bytes for the header, then the records that are kept
}

// Reset drops the buffers of the rewriter. Room is not called.
func (w *Rewriter) Reset() {
	w.Decoder.Reset()
	w.body = nil
}

// Rewritten is the result of [Rewriter.Rewrite].
type Rewritten struct {
	// Batch is the new batch. It is nil if nothing has changed or no record is left. It belongs to
	// the caller.
	Batch   []byte
	Kept    int // records left
	Removed int
}

// Rewrite removes the records of the batch data for which keep returns false. The other records
// keep their offsets and timestamps, the batch its offsets, codec and producer. The records that
// keep is called with are lent and have no Headers, and their offsets begin at base.
//
// If horizon is 0 or more, the base timestamp becomes that delete horizon, in milliseconds since
// 1970, and the batch is marked as one that has a delete horizon, as Kafka does it. The errors are
// those of [Decoder.Records], or of the compressor.
func (w *Rewriter) Rewrite(data []byte, base, horizon int64, keep func(Record) bool) (Rewritten, error) {
	b, body, err := w.open(data)
	if err != nil {
		return Rewritten{}, err
	}
	if b.Codec() != None { // all records, those that are kept, and those compressed again
		if err := room(w.Room).ask(cap(w.buf) + 3*len(body)); err != nil {
			return Rewritten{}, undecodable(b.Codec(), err)
		}
	}
	origin := b.FirstTimestamp
	if horizon >= 0 {
		origin = horizon
	}
	var out Rewritten
	w.body = slices.Grow(w.body[:0], HeaderSize)[:HeaderSize]
	newest := int64(NoTimestamp)
	for r, err := range b.raws(body) {
		if err != nil {
			return Rewritten{}, err
		}
		rec := b.record(r)
		rec.Offset = base + int64(r.offsetDelta)
		if !keep(rec) {
			out.Removed++
			continue
		}
		out.Kept++
		newest = max(newest, rec.Timestamp)
		w.body = r.append(w.body, r.timeDelta+b.FirstTimestamp-origin)
	}
	if out.Kept == 0 || out.Removed == 0 && horizon < 0 {
		return out, nil
	}
	if horizon >= 0 {
		b.Attributes |= deleteHorizonBt
		b.FirstTimestamp = horizon
	}
	b.NumRecords = int32(out.Kept)
	if !b.LogAppendTime() {
		b.MaxTimestamp = newest
	}
	out.Batch, err = w.encode(&b)
	return out, err
}

// encode returns the batch with the header b and the records in w.body.
func (w *Rewriter) encode(b *Batch) ([]byte, error) {
	if b.Codec() == None {
		return finish(b.RecordBatch, slices.Clone(w.body)), nil
	}
	batch, err := compress(make([]byte, HeaderSize, HeaderSize+len(w.body)/2), w.body[HeaderSize:], b.Codec())
	if err != nil {
		return nil, err
	}
	return finish(b.RecordBatch, batch), nil
}

// append appends the record to dst, with the given timestamp delta.
func (r *raw) append(dst []byte, timeDelta int64) []byte {
	if timeDelta == r.timeDelta {
		return append(dst, r.all...)
	}
	dst = kbin.AppendVarint(dst, int32(1+kbin.VarlongLen(timeDelta)+len(r.tail)))
	dst = append(dst, byte(r.attributes))
	dst = kbin.AppendVarlong(dst, timeDelta)
	return append(dst, r.tail...)
}
