package topic

import (
	"context"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// Appended says which offsets a record batch got.
type Appended = partition.Appended

// Append commits one record batch, as a Kafka producer sent it, to a partition. When it returns,
// the batch has the log's durability and every reader sees it.
//
// A batch that may not be stored is Invalid, with a [*recordbatch.Error] as its cause. A batch that
// is compressed is decompressed to check its records, see [Options.Memory]. The bytes are borrowed
// until Append returns and are not changed: a topic with LogAppendTime stores a copy.
func (t *Topic) Append(ctx context.Context, partition int32, batch []byte) (Appended, error) {
	b := batches.Get().(*mainstem.Batch)
	defer putBatch(b)
	slot, err := t.tryAppendTo(ctx, b, partition, batch)
	if err != nil {
		return Appended{}, err
	}
	r, err := t.c.log.Commit(ctx, b)
	if err != nil {
		return Appended{}, t.seen(err)
	}
	return slot.In(r), nil
}

// commit commits the writes that write adds to a batch, and returns the offsets that they got.
func (t *Topic) commit(ctx context.Context, write func(b *mainstem.Batch) []partition.Slot) ([]Appended, error) {
	b := batches.Get().(*mainstem.Batch)
	defer putBatch(b)
	slots := write(b)
	if err := b.Err(); err != nil {
		return nil, err // not an error of the log: the topic may well exist
	}
	r, err := t.c.log.Commit(ctx, b)
	if err != nil {
		return nil, t.seen(err)
	}
	out := make([]Appended, len(slots))
	for i := range slots {
		out[i] = slots[i].In(r)
	}
	return out, nil
}

// AppendTo adds a record batch to b, to be committed with the other writes there. It checks the
// batch as [Topic.Append] does; for the memory it waits up to 10 s. An error goes to
// [mainstem.Batch.Fail], so that the commit of b fails and writes nothing. After the commit,
// [partition.Slot.In] returns the offsets. The bytes are borrowed until b is committed and are not
// changed: a topic with LogAppendTime stores a copy.
func (t *Topic) AppendTo(b *mainstem.Batch, partition int32, batch []byte) partition.Slot {
	slot, err := t.tryAppendTo(t.c.ctx, b, partition, batch)
	if err != nil {
		b.Fail(err)
	}
	return slot
}

// Partition returns the type that appends to partition n, for a server of Kafka's protocol. It
// fails with NotFound if the topic or the partition does not exist.
func (t *Topic) Partition(n int32) (*partition.Partition, error) {
	p, err := t.partition("append", n)
	if err != nil {
		return nil, err
	}
	return p.Partition, nil
}

// tryAppendTo is AppendTo that returns the error and leaves b as it was. ctx ends a wait for
// memory.
func (t *Topic) tryAppendTo(ctx context.Context, b *mainstem.Batch, n int32, batch []byte) (partition.Slot, error) {
	p, err := t.Partition(n)
	if err != nil {
		return partition.Slot{}, err
	}
	return p.AppendTo(ctx, b, batch)
}

// refuse returns the error of a call that may not store a record batch because of err.
func (t *Topic) refuse(op string, err error) error { return partition.Refuse(op, t.space, err) }

// batches are empty batches of the log, for reuse.
var batches = sync.Pool{New: func() any { return mainstem.NewBatch() }}

func putBatch(b *mainstem.Batch) {
	b.Reset()
	batches.Put(b)
}
