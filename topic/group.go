package topic

import (
	"context"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// Offset is where a consumer group goes on in a partition.
type Offset = partition.Offset

// Offsets are the offsets that a consumer group has stored for a topic. They
// belong to this topic: one created later under its name starts without. The
// methods may be called from many goroutines.
type Offsets struct {
	t      *Topic
	stored *partition.Offsets
}

// Offsets returns the stored offsets of the consumer group called group.
func (t *Topic) Offsets(group string) *Offsets {
	return &Offsets{t: t, stored: partition.NewOffsets(t.c.log, group, t.name, t.id)}
}

// CommitTo puts into b that the group goes on at offset next of a partition: with
// what the consumer made of the records in the same batch, every record is
// processed exactly once. A mistake shows when b is committed.
func (o *Offsets) CommitTo(b *mainstem.Batch, partition int32, next int64) {
	o.CommitOffsetTo(b, partition, Offset{Next: next, LeaderEpoch: -1})
}

// CommitOffsetTo is CommitTo with all that Kafka's consumers store.
func (o *Offsets) CommitOffsetTo(b *mainstem.Batch, partition int32, off Offset) {
	if _, err := o.t.partition("commit offset", partition); err != nil {
		b.Fail(err)
		return
	}
	b.IfExists(o.t.space, o.t.idKey)
	o.stored.CommitOffsetTo(b, partition, off)
}

// ForgetTo puts into b that the group has no offset in a partition.
func (o *Offsets) ForgetTo(b *mainstem.Batch, partition int32) { o.stored.ForgetTo(b, partition) }

// Commit does at once what [Offsets.CommitTo] does in a batch.
func (o *Offsets) Commit(ctx context.Context, partition int32, next int64) error {
	return o.now(ctx, func(b *mainstem.Batch) { o.CommitTo(b, partition, next) })
}

// CommitOffset does at once what [Offsets.CommitOffsetTo] does in a batch.
func (o *Offsets) CommitOffset(ctx context.Context, partition int32, off Offset) error {
	return o.now(ctx, func(b *mainstem.Batch) { o.CommitOffsetTo(b, partition, off) })
}

// Forget does at once what [Offsets.ForgetTo] does in a batch.
func (o *Offsets) Forget(ctx context.Context, partition int32) error {
	return o.now(ctx, func(b *mainstem.Batch) { o.ForgetTo(b, partition) })
}

func (o *Offsets) now(ctx context.Context, write func(b *mainstem.Batch)) error {
	b := mainstem.NewBatch()
	write(b)
	if _, err := o.t.c.log.Commit(ctx, b); err != nil {
		return o.t.changed(err)
	}
	return nil
}

// Load returns the group's offsets by partition; a partition without is missing.
func (o *Offsets) Load(ctx context.Context) (map[int32]Offset, error) {
	if err := o.t.usable("load offsets"); err != nil {
		return nil, err
	}
	return o.stored.Load(ctx)
}
