package topic

import (
	"context"
	"math/rand/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

// PublishTo puts records into b, to be committed with whatever else is there, in
// one uncompressed record batch for each partition, or several if they are more
// than max.message.bytes. Partitions follow from the keys; records without a key
// go together to one chosen at random. The records are copied. A mistake shows
// when b is committed, and nothing is then written.
//
// After the commit, [partition.Slot.In] tells the offsets of each record batch, in the order
// of the slots.
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

// PublishPartitionTo is [Topic.PublishTo] into one partition, whatever the keys.
func (t *Topic) PublishPartitionTo(b *mainstem.Batch, num int32, records ...Record) []partition.Slot {
	return t.publish(b, records, func(*Record, int32) int32 { return num })
}

// Publish does at once what [Topic.PublishTo] does in a batch, and returns where the
// record batches went. They have the log's durability when it returns. A program that
// publishes much uses a [Producer], which commits the records of many calls together.
func (t *Topic) Publish(ctx context.Context, records ...Record) ([]Appended, error) {
	return t.commit(ctx, func(b *mainstem.Batch) []partition.Slot { return t.PublishTo(b, records...) })
}

// PublishPartition is [Topic.Publish] into one partition, whatever the keys.
func (t *Topic) PublishPartition(ctx context.Context, num int32, records ...Record) ([]Appended, error) {
	return t.commit(ctx, func(b *mainstem.Batch) []partition.Slot { return t.PublishPartitionTo(b, num, records...) })
}

// publication is the record batches that Publish makes.
type publication struct {
	t      *Topic
	b      *mainstem.Batch
	open   map[int32]*recordbatch.Builder
	places []publishedSlot
}

// publishedSlot is a record batch in the making, in the order of publication.
type publishedSlot struct {
	p       *partitionState
	builder *recordbatch.Builder
}

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

func (pub *publication) put(at publishedSlot) (partition.Slot, error) {
	data, err := at.builder.Finish(recordbatch.None)
	if err != nil {
		return partition.Slot{}, pub.t.refuse("publish", err)
	}
	return pub.t.tryAppendTo(pub.t.c.ctx, pub.b, at.p.num, data)
}
