package partition

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/mainstemdev/mainstem"
)

// Offsets are the offsets that a consumer group has stored for one [Reader]. For a topic of a
// catalog use those of package topic, which also check that the topic exists; this type is for a
// [Shown]. The methods may be called from many goroutines.
type Offsets struct {
	log    mainstem.Log
	id     ID
	prefix []byte // of the keys; nil if err is set
	err    error  // of NewOffsets, returned by all methods
}

// NewOffsets returns the stored offsets of a consumer group for the Reader with the given name and
// ID. Offsets that were stored for another ID under the name do not count. Whether the Reader
// exists, and which partitions it has, is not checked. A mistake in group or name is an Invalid
// error of the methods.
func NewOffsets(log mainstem.Log, group, name string, id ID) *Offsets {
	o := &Offsets{log: log, id: id, err: ValidateGroup(group)}
	if o.err == nil && (name == "" || len(name) > maxName) {
		o.err = mainstem.Refusef(mainstem.KindInvalid, "offsets", "the name %.40q has %d bytes: want 1 to %d", name, len(name), maxName)
	}
	if o.err == nil {
		o.prefix = offsetPrefix(group, name)
	}
	return o
}

// maxName is the most bytes of the name of a topic.
const maxName = 249

// ValidateGroup returns an Invalid error unless group is 1 to [MaxGroup] bytes.
func ValidateGroup(group string) error {
	if group == "" || len(group) > MaxGroup {
		return mainstem.Refusef(mainstem.KindInvalid, "offsets", "the group's name %.40q has %d bytes: want 1 to %d", group, len(group), MaxGroup)
	}
	return nil
}

// CommitOffsetTo adds to b that the group continues at off in a partition. If b also has everything
// that the consumer made of the records before off.Next, each record is processed exactly once. An
// error goes to [mainstem.Batch.Fail].
func (o *Offsets) CommitOffsetTo(b *mainstem.Batch, partition int32, off Offset) {
	const op = "commit offset"
	switch {
	case o.err != nil:
		b.Fail(o.err)
	case partition < 0:
		b.Fail(mainstem.Refusef(mainstem.KindInvalid, op, "there is no partition %d", partition))
	case off.Next < 0 || len(off.Metadata) > MaxOffsetMetadata:
		b.Fail(mainstem.Refusef(mainstem.KindInvalid, op, "offset %d with %d bytes of metadata: want 0 or more, and at most %d", off.Next, len(off.Metadata), MaxOffsetMetadata))
	default:
		EnsureGroupSpace(b)
		b.Put(GroupSpace, o.key(partition), off.encode(o.id))
	}
}

// ForgetTo adds to b that the group has no offset in a partition.
func (o *Offsets) ForgetTo(b *mainstem.Batch, partition int32) {
	if o.err != nil {
		b.Fail(o.err)
		return
	}
	EnsureGroupSpace(b)
	b.Delete(GroupSpace, o.key(partition))
}

// AbsentTo adds to b the condition that the group has no offset in a partition.
func (o *Offsets) AbsentTo(b *mainstem.Batch, partition int32) {
	if o.err != nil {
		b.Fail(o.err)
		return
	}
	EnsureGroupSpace(b)
	b.IfAbsent(GroupSpace, o.key(partition))
}

// CommitOffset does at once what [Offsets.CommitOffsetTo] does in a batch. The offset has the log's
// durability when it returns.
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
	_, err := o.log.Commit(ctx, b)
	return err
}

// Load returns the group's offsets, by partition. Partitions without one are not in the map.
func (o *Offsets) Load(ctx context.Context) (map[int32]Offset, error) {
	if o.err != nil {
		return nil, o.err
	}
	out := map[int32]Offset{}
	for s, err := range scanOffsets(ctx, o.log, o.prefix) {
		if err != nil {
			return nil, err
		}
		if s.ID == o.id {
			out[s.Partition] = s.Offset
		}
	}
	return out, nil
}

// key returns the key of the offset of a partition.
func (o *Offsets) key(partition int32) []byte {
	return binary.BigEndian.AppendUint32(slices.Clip(o.prefix), uint32(partition))
}
