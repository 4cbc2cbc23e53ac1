package topic

import (
	"context"
	"math/rand/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// PublishTo adds records to b, to be committed with the other writes there: one uncompressed record
// batch for each partition, or several if they exceed max.message.bytes. The partition follows from
// the key, see [KeyPartition]; all records without a key go to one partition chosen at random. The
// records are copied. An error goes to [mainstem.Batch.Fail], so that the commit of b fails and
// writes nothing.
//
// It returns one slot for each record batch, in the order of their first records. After the commit,
// [partition.Slot.In] returns the offsets.
func (t *Topic) PublishTo(b *mainstem.Batch, records ...Record) []partition.Slot {
	stuck := int32(AnyPartition)
	return t.publish(b, records, func(r *Record, n int32) int32 {
		if r.Key != nil {
			return KeyPartition(r.Key, n)
		}
		if stuck == AnyPartition {
			stuck = rand.Int32N(n)
		}
		return stuck
	})
}

// PublishPartitionTo is [Topic.PublishTo] with all records in one partition, whatever the keys.
func (t *Topic) PublishPartitionTo(b *mainstem.Batch, num int32, records ...Record) []partition.Slot {
	return t.publish(b, records, func(*Record, int32) int32 { return num })
}

// Publish commits records at once, as [Topic.PublishTo] describes, and returns the offsets of each
// record batch. When it returns, they have the log's durability. A program that publishes much uses
// a [Producer], which commits the records of many calls together.
func (t *Topic) Publish(ctx context.Context, records ...Record) ([]Appended, error) {
	return t.commit(ctx, func(b *mainstem.Batch) []partition.Slot { return t.PublishTo(b, records...) })
}

// PublishPartition is [Topic.Publish] with all records in one partition, whatever the keys.
func (t *Topic) PublishPartition(ctx context.Context, num int32, records ...Record) ([]Appended, error) {
	return t.commit(ctx, func(b *mainstem.Batch) []partition.Slot { return t.PublishPartitionTo(b, num, records...) })
}

// publication is the work of one call of publish.
type publication struct {
	t      *Topic
	b      *mainstem.Batch
	open   map[int32]*recordbatch.Builder // by partition, the batch that takes its next record
	places []publishedSlot                // all batches, in the order of their first records
}

// publishedSlot is a record batch of a publication.
type publishedSlot struct {
	p       *partitionState
	builder *recordbatch.Builder
}

// publish builds the record batches and adds them to b. choose returns the partition of a record.
func (t *Topic) publish(b *mainstem.Batch, records []Record, choose Partitioner) []partition.Slot {
	pub := publication{t: t, b: b, open: map[int32]*recordbatch.Builder{}}
	for i := range records {
		if err := pub.add(&records[i], choose); err != nil {
			b.Fail(err)
			return nil
		}
	}
	var slots []partition.Slot
	for _, at := range pub.places {
		slot, err := pub.put(at)
		if err != nil {
			b.Fail(err)
			return nil
		}
		slots = append(slots, slot)
	}
	return slots
}

// add copies a record to the batch of its partition.
func (pub *publication) add(r *Record, choose Partitioner) error {
	const op = "publish"
	t := pub.t
	plain := r.plain(t.c.o.Now().UnixMilli())
	if err := t.checkRecord(op, &plain, plain.Size()); err != nil {
		return err
	}
	p, err := t.partition(op, choose(r, t.Partitions()))
	if err != nil {
		return err
	}
	builder := pub.open[p.num]
	if builder == nil || int64(builder.Size()+plain.Size()) > t.now().settings.MaxMessage {
		builder = &recordbatch.Builder{}
		pub.open[p.num] = builder
		pub.places = append(pub.places, publishedSlot{p, builder})
	}
	builder.Append(&plain)
	return nil
}

// put adds a finished record batch to the batch of the log.
func (pub *publication) put(at publishedSlot) (partition.Slot, error) {
	data, err := at.builder.Finish(recordbatch.None)
	if err != nil {
		return partition.Slot{}, pub.t.refuse("publish", err)
	}
	return pub.t.tryAppendTo(pub.t.c.ctx, pub.b, at.p.num, data)
}
