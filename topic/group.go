package topic

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// Limits of a stored offset.
const (
	MaxGroup          = 1024    // bytes in the name of a group
	MaxOffsetMetadata = 4 << 10 // bytes in [Offset.Metadata], as Kafka's offset.metadata.max.bytes
)

// Offset is where a consumer group goes on in a partition.
type Offset struct {
	Next        int64  // the offset to read next
	LeaderEpoch int32  // as the consumer gave it; -1 if it gave none
	Metadata    string // anything the consumer wants to find again
}

// Offsets are the offsets that a consumer group has stored for a topic. They
// belong to this topic: one created later under its name starts without. The
// methods may be called from many goroutines.
type Offsets struct {
	t      *Topic
	prefix []byte
	err    error
}

// Offsets returns the stored offsets of the consumer group called group.
func (t *Topic) Offsets(group string) *Offsets {
	o := &Offsets{t: t}
	if group == "" || len(group) > MaxGroup {
		o.err = invalid("offsets", "the group's name %.40q has %d bytes: want 1 to %d", group, len(group), MaxGroup)
		return o
	}
	o.prefix = offsetPrefix(group, t.name)
	return o
}

// Commit puts into b that the group goes on at offset next of a partition: with
// what the consumer made of the records in the same batch, every record is
// processed exactly once. A mistake shows when b is committed.
func (o *Offsets) Commit(b *mainstem.Batch, partition int32, next int64) {
	o.CommitOffset(b, partition, Offset{Next: next, LeaderEpoch: -1})
}

// CommitOffset is Commit with all that Kafka's consumers store.
func (o *Offsets) CommitOffset(b *mainstem.Batch, partition int32, off Offset) {
	const op = "commit offset"
	if _, err := o.t.partition(op, partition); err != nil || o.err != nil {
		b.Fail(errors.Join(o.err, err))
		return
	}
	if off.Next < 0 || len(off.Metadata) > MaxOffsetMetadata {
		b.Fail(invalid(op, "offset %d with %d bytes of metadata: want 0 or more, and at most %d", off.Next, len(off.Metadata), MaxOffsetMetadata))
		return
	}
	b.Ensure(GroupSpace, groupPolicy)
	b.IfExists(o.t.space, o.t.idKey)
	b.Put(GroupSpace, o.key(partition), off.encode(o.t.id))
}

// Forget puts into b that the group has no offset in a partition.
func (o *Offsets) Forget(b *mainstem.Batch, partition int32) {
	if o.err != nil {
		b.Fail(o.err)
		return
	}
	b.Ensure(GroupSpace, groupPolicy)
	b.Delete(GroupSpace, o.key(partition))
}

// Store commits, by itself, that the group goes on at offset next of a partition.
func (o *Offsets) Store(ctx context.Context, partition int32, next int64) error {
	b := mainstem.NewBatch()
	o.Commit(b, partition, next)
	_, err := o.t.c.log.Commit(ctx, b)
	if err != nil {
		return o.t.changed(err)
	}
	return nil
}

// Load returns the group's offsets by partition; a partition without is missing.
func (o *Offsets) Load(ctx context.Context) (map[int32]Offset, error) {
	if o.err != nil {
		return nil, o.err
	}
	if err := o.t.usable("load offsets"); err != nil {
		return nil, err
	}
	out := map[int32]Offset{}
	for rec, err := range o.t.c.log.Scan(ctx, GroupSpace, mainstem.Range{Prefix: o.prefix}) {
		if errors.Is(err, mainstem.ErrNotFound) {
			break // no group has ever stored an offset
		}
		if err != nil {
			return nil, err
		}
		off, id, err := decodeOffset(rec.Value)
		if err == nil && len(rec.Key) != len(o.prefix)+4 {
			err = fmt.Errorf("the key has %d bytes", len(rec.Key))
		}
		if err != nil {
			return nil, &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "load offsets", Space: GroupSpace, Key: slices.Clone(rec.Key), Err: err}
		}
		if id == o.t.id {
			out[int32(binary.BigEndian.Uint32(rec.Key[len(o.prefix):]))] = off
		}
	}
	return out, nil
}

func (o *Offsets) key(partition int32) []byte {
	return binary.BigEndian.AppendUint32(slices.Clip(o.prefix), uint32(partition))
}
