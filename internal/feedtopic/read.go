package feedtopic

import (
	"context"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// Read returns batches of the records from an offset on, see [topic.Topic.Read]. An
// offset below 0, or behind the end of the space, is Invalid with a
// [*topic.OutOfRangeError] as its cause.
func (t *Topic) Read(ctx context.Context, num int32, offset int64, o *partition.ReadOptions) (partition.Chunk, error) {
	if err := t.check(num); err != nil {
		return partition.Chunk{}, err
	}
	if o == nil {
		o = &partition.ReadOptions{}
	}
	end, bound, err := t.ends(ctx)
	if err != nil {
		return partition.Chunk{}, err
	}
	if offset < 0 || offset > bound {
		return partition.Chunk{}, &mainstem.Error{Kind: mainstem.KindInvalid, Op: "read", Err: &topic.OutOfRangeError{
			Topic: t.name, Partition: num, Offset: offset, Start: 0, End: end,
		}}
	}
	if offset >= end {
		return partition.Chunk{Data: o.Buffer, Next: offset, End: end}, nil
	}
	return t.read(ctx, offset, end, o)
}

// read collects the batches from offset on. At first, everything below end was
// committed.
func (t *Topic) read(ctx context.Context, offset, end int64, o *partition.ReadOptions) (partition.Chunk, error) {
	from, limit := len(o.Buffer), o.MaxBytes
	if limit <= 0 {
		limit = partition.DefaultReadBytes
	}
	b := builder{data: o.Buffer, epoch: o.LeaderEpoch}
	next := offset
	for r, err := range t.view.Records(ctx, after(offset)) {
		if err != nil {
			return partition.Chunk{}, err
		}
		at := int64(r.Position)
		within := o.Before <= 0 || at < o.Before
		if size := batchSize(r); o.MaxFirst > 0 && size > o.MaxFirst && len(b.data) == from && within {
			return partition.Chunk{Data: o.Buffer, TooLarge: size, Full: true, Next: next, End: max(end, at+1)}, nil
		}
		if !within || !b.add(r, from, limit) {
			b.close()
			return partition.Chunk{Data: b.data, Full: within, Next: next, End: max(end, at+1)}, nil
		}
		next = at + 1
	}
	b.close()
	return partition.Chunk{Data: b.data, Next: next, End: max(end, next)}, nil
}

// after returns the position before the first one that offset selects.
func after(offset int64) mainstem.Position { return mainstem.Position(max(offset, 1) - 1) }
