package topic

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// DefaultReadBytes is how much Read returns when the caller does not say.
const DefaultReadBytes = 1 << 20

// ReadOptions says how much [Topic.Read] returns. nil and the zero value mean
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

// Chunk is what [Topic.Read] found.
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

// Read returns record batches of a partition from the one that holds offset on.
// At the end there is none, and no error. An offset before the start or beyond
// the end is Invalid, with an [*OutOfRangeError] as its cause. Read never waits:
// see [Waiter].
func (t *Topic) Read(ctx context.Context, partition int32, offset int64, o *ReadOptions) (Chunk, error) {
	const op = "read"
	p, err := t.partition(op, partition)
	if err != nil {
		return Chunk{}, err
	}
	if o == nil {
		o = &ReadOptions{}
	}
	if o.MaxBytes < 0 {
		return Chunk{}, invalid(op, "MaxBytes is %d: want 0 (default) or more", o.MaxBytes)
	}
	if o.MaxFirst < 0 {
		return Chunk{}, invalid(op, "MaxFirst is %d: want 0 (no limit) or more", o.MaxFirst)
	}
	if offset < p.start.Load() {
		return Chunk{}, p.outOfRange(op, offset, p.end.Load())
	}
	if offset > p.end.Load() {
		end, err := p.readEnd(ctx)
		if err != nil {
			return Chunk{}, err
		}
		if offset > end {
			return Chunk{}, p.outOfRange(op, offset, end)
		}
	}
	return p.read(ctx, offset, o)
}

// read collects batches from offset on, which is in range.
func (p *partition) read(ctx context.Context, offset int64, o *ReadOptions) (Chunk, error) {
	limit, before := o.MaxBytes, o.Before
	if limit == 0 {
		limit = DefaultReadBytes
	}
	if before == 0 {
		before = math.MaxInt64
	}
	c := Chunk{Data: o.Buffer, Next: offset}
	stopped := false
	for rec, err := range p.batches(ctx, offset) {
		if err != nil {
			return Chunk{}, p.t.seen(err)
		}
		base := int64(rec.First()) - 1
		at := len(c.Data)
		if base >= before || at > len(o.Buffer) && at-len(o.Buffer)+len(rec.Value) > limit {
			raise(&p.end, int64(rec.Version))
			stopped = true
			break
		}
		if at == len(o.Buffer) && o.MaxFirst > 0 && len(rec.Value) > o.MaxFirst {
			c.TooLarge, stopped = len(rec.Value), true
			raise(&p.end, int64(rec.Version))
			break
		}
		if len(rec.Value) < recordbatch.HeaderSize {
			return Chunk{}, p.corrupt(&rec, errors.New("it is too short for a record batch"))
		}
		c.Data = append(c.Data, rec.Value...)
		recordbatch.Place(c.Data[at:], base, o.LeaderEpoch)
		c.Next = int64(rec.Version)
	}
	raise(&p.end, c.Next)
	c.Start = p.start.Load()
	c.End = p.end.Load()
	if stopped {
		end, err := p.readEnd(ctx)
		if err != nil {
			return Chunk{}, err
		}
		c.End = end
	}
	return c, nil
}

// batches yields the records of the partition that hold offset and those after
// it, one record batch each. The records are lent.
func (p *partition) batches(ctx context.Context, offset int64) iter.Seq2[mainstem.Record, error] {
	return p.t.c.log.Read(ctx, p.t.space, p.key, mainstem.Versions{From: mainstem.Version(offset) + 1})
}

// corrupt returns the error for a stored record batch that cannot be one.
func (p *partition) corrupt(rec *mainstem.Record, err error) error {
	return &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "read", Space: p.t.space, Key: p.key, Err: fmt.Errorf("the record batch at offset %d of %s/%d: %w", rec.First()-1, p.t.name, p.num, err)}
}
