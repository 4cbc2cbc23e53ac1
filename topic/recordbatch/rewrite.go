package recordbatch

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
)

// Rewriter removes records from batches, as compaction does. The zero Rewriter is
// ready; it keeps its buffers from one batch to the next.
type Rewriter struct {
	// Decoder decodes the batches. Its Room is asked for what the rewriter takes too.
	Decoder
	body []byte
}

// Reset gives up the memory that the rewriter keeps. Room is not called.
func (w *Rewriter) Reset() {
	w.Decoder.Reset()
	w.body = nil
}

// Rewritten is what [Rewriter.Rewrite] made of a batch.
type Rewritten struct {
	// Batch is the new batch; nil if nothing changed, or if no record is left. It
	// belongs to the caller.
	Batch   []byte
	Kept    int // records left
	Removed int
}

// Rewrite removes the records of data for which keep is false. What is left keeps
// its offsets and timestamps, and the batch its offset span, codec and producer.
// The record given to keep has its offset counted from base.
// With horizon >= 0 the batch's base timestamp becomes that delete horizon, in
// milliseconds, as Kafka marks batches whose tombstones may go after it. The
// record given to keep is lent. The errors are those of [Decoder.Records].
func (w *Rewriter) Rewrite(data []byte, base, horizon int64, keep func(Record) bool) (Rewritten, error) {
	b, body, err := w.open(data)
	if err != nil {
		return Rewritten{}, err
	}
	if b.Codec() != None { // the records as they were, those that stay, and what they are compressed to
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
		rec := w.record(&b, r)
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

// encode returns the batch of header b and the records in w.body.
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

// append appends the record to dst with another timestamp delta.
func (r *raw) append(dst []byte, timeDelta int64) []byte {
	if timeDelta == r.timeDelta {
		return append(dst, r.all...)
	}
	dst = kbin.AppendVarint(dst, int32(1+kbin.VarlongLen(timeDelta)+len(r.tail)))
	dst = append(dst, byte(r.attributes))
	dst = kbin.AppendVarlong(dst, timeDelta)
	return append(dst, r.tail...)
}
