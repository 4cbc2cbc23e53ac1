package topic

import (
	"context"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// Appended says where a record batch went.
type Appended = partition.Appended

// Append commits one record batch, exactly as a Kafka producer sent it, to a
// partition. The batch has the log's durability when Append returns. A batch
// that may not be stored is Invalid: its cause is a [*recordbatch.Error] with
// the reason. The bytes are borrowed until Append returns and not changed.
func (t *Topic) Append(ctx context.Context, partition int32, batch []byte) (Appended, error) {
	b := batches.Get().(*mainstem.Batch)
	defer putBatch(b)
	slot, err := t.tryAppendTo(t.c.ctx, b, partition, batch)
	if err != nil {
		return Appended{}, err
	}
	r, err := t.c.log.Commit(ctx, b)
	if err != nil {
		return Appended{}, t.seen(err)
	}
	return slot.In(r), nil
}

// commit commits what write puts into a batch, and returns where it went.
func (t *Topic) commit(ctx context.Context, write func(b *mainstem.Batch) []partition.Slot) ([]Appended, error) {
	b := batches.Get().(*mainstem.Batch)
	defer putBatch(b)
	slots := write(b)
	if err := b.Err(); err != nil {
		return nil, err // it says nothing about whether the topic is still there
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

// AppendTo verifies a record batch and puts it into b, to be committed with
// whatever else is there. It decompresses the records to check them, as Kafka does, within
// [Options.Memory]. A mistake shows when b is committed, and nothing is then written; after
// the commit, [partition.Slot.In] tells the offsets. The bytes are borrowed until b is committed; they
// are not changed: a topic with LogAppendTime stores a copy.
func (t *Topic) AppendTo(b *mainstem.Batch, partition int32, batch []byte) partition.Slot {
	slot, err := t.tryAppendTo(t.c.ctx, b, partition, batch)
	if err != nil {
		b.Fail(err)
	}
	return slot
}

// Partition returns what takes the record batches of one partition of the topic, for a server
// of Kafka's protocol: NotFound if the topic or the partition is not there.
func (t *Topic) Partition(n int32) (*partition.Partition, error) {
	p, err := t.partition("append", n)
	if err != nil {
		return nil, err
	}
	return p.Partition, nil
}

// tryAppendTo is AppendTo that leaves b as it was if the batch may not be stored.
func (t *Topic) tryAppendTo(ctx context.Context, b *mainstem.Batch, n int32, batch []byte) (partition.Slot, error) {
	p, err := t.Partition(n)
	if err != nil {
		return partition.Slot{}, err
	}
	return p.AppendTo(ctx, b, batch)
}

// refuse makes an error of the topic from why a record batch may not be stored.
func (t *Topic) refuse(op string, err error) error { return partition.Refuse(op, t.space, err) }

// batches are empty batches of the log.
var batches = sync.Pool{New: func() any { return mainstem.NewBatch() }}

func putBatch(b *mainstem.Batch) {
	b.Reset()
	batches.Put(b)
}
