package topic

import (
	"context"
	"errors"
	"iter"
	"math"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// Read returns record batches of a partition, from the batch that has offset on, or from the next
// batch where compaction has removed that offset. At the end of the partition it returns no batch
// and no error: it never waits, see [Waiter]. An offset before the start or beyond the end is
// Invalid, with an [*OutOfRangeError] as its cause. o may be nil. The bytes of the result belong to
// the caller.
func (t *Topic) Read(ctx context.Context, num int32, offset int64, o *partition.ReadOptions) (partition.Chunk, error) {
	const op = "read"
	p, err := t.partition(op, num)
	if err != nil {
		return partition.Chunk{}, err
	}
	if o == nil {
		o = &partition.ReadOptions{}
	}
	if o.MaxBytes < 0 {
		return partition.Chunk{}, mainstem.Refusef(mainstem.KindInvalid, op, "MaxBytes is %d: want 0 (default) or more", o.MaxBytes)
	}
	if o.MaxFirst < 0 {
		return partition.Chunk{}, mainstem.Refusef(mainstem.KindInvalid, op, "MaxFirst is %d: want 0 (no limit) or more", o.MaxFirst)
	}
	if offset < p.start.Load() {
		return partition.Chunk{}, p.outOfRange(op, offset, p.KnownEnd())
	}
	if offset > p.KnownEnd() {
		end, err := p.readEnd(ctx)
		if err != nil {
			return partition.Chunk{}, err
		}
		if offset > end {
			return partition.Chunk{}, p.outOfRange(op, offset, end)
		}
	}
	c, missing, err := p.read(ctx, offset, o)
	if err != nil || !missing {
		return c, err
	}
	// Compaction has removed the offset, or another process has raised the start.
	start, err := t.Start(ctx, num)
	if err == nil && offset < start {
		err = p.outOfRange(op, offset, p.KnownEnd())
	}
	if err != nil {
		return partition.Chunk{}, err
	}
	c.Start = start
	return c, nil
}

// read collects batches from offset on, which is in range as far as this process knows. missing
// means that no batch has offset although it is below the end.
func (p *partitionState) read(ctx context.Context, offset int64, o *partition.ReadOptions) (_ partition.Chunk, missing bool, _ error) {
	limit, before := o.MaxBytes, o.Before
	if limit == 0 {
		limit = partition.DefaultReadBytes
	}
	if before == 0 {
		before = math.MaxInt64
	}
	c := partition.Chunk{Data: o.Buffer, Next: offset}
	stopped, first := false, int64(math.MaxInt64) // first is the first offset that is there
	for rec, err := range p.batches(ctx, offset) {
		if err != nil {
			return partition.Chunk{}, false, p.t.seen(err)
		}
		base := int64(rec.First()) - 1
		first = min(first, base)
		at := len(c.Data)
		c.Full = base < before && at > len(o.Buffer) && at-len(o.Buffer)+len(rec.Value) > limit
		if c.Full || base >= before {
			p.Seen(int64(rec.Version))
			stopped = true
			break
		}
		if at == len(o.Buffer) && o.MaxFirst > 0 && len(rec.Value) > o.MaxFirst {
			c.TooLarge, c.Full, stopped = len(rec.Value), true, true
			p.Seen(int64(rec.Version))
			break
		}
		if len(rec.Value) < recordbatch.HeaderSize {
			return partition.Chunk{}, false, p.corrupt(&rec, errors.New("it is too short for a record batch"))
		}
		c.Data = append(c.Data, rec.Value...)
		recordbatch.Place(c.Data[at:], base, o.LeaderEpoch)
		c.Next = int64(rec.Version)
	}
	missing = offset < min(first, p.KnownEnd())
	p.Seen(c.Next)
	c.Start = p.start.Load()
	c.End = p.KnownEnd()
	if stopped {
		end, err := p.readEnd(ctx)
		if err != nil {
			return partition.Chunk{}, false, err
		}
		c.End = end
	}
	return c, missing, nil
}

// batches yields the stored batches, one record each, from the one that has offset on. The records
// are lent until the loop body returns.
func (p *partitionState) batches(ctx context.Context, offset int64) iter.Seq2[mainstem.Record, error] {
	return p.t.c.log.Read(ctx, p.t.space, p.Key(), mainstem.Versions{From: mainstem.Version(offset) + 1})
}

// corrupt returns the Corrupt error for a stored record that is not a valid record batch.
func (p *partitionState) corrupt(rec *mainstem.Record, err error) error {
	return mainstem.Errorf(mainstem.KindCorrupt, "read", "the record batch at offset %d of %s/%d: %w", rec.First()-1, p.t.name, p.num, err).At(p.t.space, p.Key())
}
