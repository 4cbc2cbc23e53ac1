package topic

import (
	"context"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// Offset is the position of a consumer group in a partition.
type Offset = partition.Offset

// Offsets are the offsets that a consumer group has stored for a topic. They belong to the topic
// with its ID: a topic that is created later under the name has none. The methods may be called
// from many goroutines.
type Offsets struct {
	t      *Topic
	stored *partition.Offsets
}

// Offsets returns the stored offsets of a consumer group. Whether group may be the name of one is
// checked when they are used.
func (t *Topic) Offsets(group string) *Offsets {
	return &Offsets{t: t, stored: partition.NewOffsets(t.c.log, group, t.name, t.id)}
}

// CommitTo adds to b that the group continues at offset next of a partition. If b also has
// everything that the consumer made of the records before next, each record is processed exactly
// once, whenever the consumer crashes. An error goes to [mainstem.Batch.Fail]. The commit of b
// fails with Conflict if the topic was deleted.
func (o *Offsets) CommitTo(b *mainstem.Batch, partition int32, next int64) {
	o.CommitOffsetTo(b, partition, Offset{Next: next, LeaderEpoch: -1})
}

// CommitOffsetTo is [Offsets.CommitTo] with everything that Kafka's consumers store.
func (o *Offsets) CommitOffsetTo(b *mainstem.Batch, partition int32, off Offset) {
	if _, err := o.t.partition("commit offset", partition); err != nil {
		b.Fail(err)
		return
	}
	b.IfExists(o.t.space, o.t.idKey)
	o.stored.CommitOffsetTo(b, partition, off)
}

// ForgetTo adds to b that the group has no offset in a partition.
func (o *Offsets) ForgetTo(b *mainstem.Batch, partition int32) { o.stored.ForgetTo(b, partition) }

// Commit does at once what [Offsets.CommitTo] does in a batch; a topic that was deleted is
// NotFound. The offset has the log's durability when it returns.
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

// now commits the writes that write adds to a batch.
func (o *Offsets) now(ctx context.Context, write func(b *mainstem.Batch)) error {
	b := mainstem.NewBatch()
	write(b)
	if _, err := o.t.c.log.Commit(ctx, b); err != nil {
		return o.t.changed(err)
	}
	return nil
}

// Load returns the group's offsets, by partition. Partitions without one are not in the map.
func (o *Offsets) Load(ctx context.Context) (map[int32]Offset, error) {
	if err := o.t.usable("load offsets"); err != nil {
		return nil, err
	}
	return o.stored.Load(ctx)
}
