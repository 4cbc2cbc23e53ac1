package topic

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

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
	log    mainstem.Log
	t      *Topic // nil: the topic is not one of a catalog
	id     ID
	prefix []byte
	err    error
}

// Offsets returns the stored offsets of the consumer group called group.
func (t *Topic) Offsets(group string) *Offsets {
	o := newOffsets(t.c.log, group, t.name, t.id)
	o.t = t
	return o
}

// ForeignOffsets returns the stored offsets of a consumer group for what is read
// like a topic and is not in a catalog, such as the events of a store: name and
// id tell it from everything else that has offsets. Whether it exists, and which
// partitions it has, is not checked.
func ForeignOffsets(log mainstem.Log, group, name string, id ID) *Offsets {
	o := newOffsets(log, group, name, id)
	if err := ValidateName(name); err != nil {
		o.err = errors.Join(o.err, err)
	}
	return o
}

func newOffsets(log mainstem.Log, group, name string, id ID) *Offsets {
	o := &Offsets{log: log, id: id, err: ValidateGroup(group)}
	if o.err == nil {
		o.prefix = offsetPrefix(group, name)
	}
	return o
}

// ValidateGroup returns an Invalid error unless group is 1 to [MaxGroup] bytes.
func ValidateGroup(group string) error {
	if group == "" || len(group) > MaxGroup {
		return invalid("offsets", "the group's name %.40q has %d bytes: want 1 to %d", group, len(group), MaxGroup)
	}
	return nil
}

// CommitTo puts into b that the group goes on at offset next of a partition: with
// what the consumer made of the records in the same batch, every record is
// processed exactly once. A mistake shows when b is committed.
func (o *Offsets) CommitTo(b *mainstem.Batch, partition int32, next int64) {
	o.CommitOffsetTo(b, partition, Offset{Next: next, LeaderEpoch: -1})
}

// CommitOffsetTo is CommitTo with all that Kafka's consumers store.
func (o *Offsets) CommitOffsetTo(b *mainstem.Batch, partition int32, off Offset) {
	const op = "commit offset"
	if err := o.writable(op, partition); err != nil {
		b.Fail(err)
		return
	}
	if off.Next < 0 || len(off.Metadata) > MaxOffsetMetadata {
		b.Fail(invalid(op, "offset %d with %d bytes of metadata: want 0 or more, and at most %d", off.Next, len(off.Metadata), MaxOffsetMetadata))
		return
	}
	EnsureGroupSpace(b)
	if o.t != nil {
		b.IfExists(o.t.space, o.t.idKey)
	}
	b.Put(GroupSpace, o.key(partition), off.encode(o.id))
}

// writable returns why no offset can be stored for a partition, or nil.
func (o *Offsets) writable(op string, partition int32) error {
	if o.t != nil {
		_, err := o.t.partition(op, partition)
		return errors.Join(o.err, err)
	}
	if o.err == nil && partition < 0 {
		return invalid(op, "there is no partition %d", partition)
	}
	return o.err
}

// ForgetTo puts into b that the group has no offset in a partition.
func (o *Offsets) ForgetTo(b *mainstem.Batch, partition int32) {
	if o.err != nil {
		b.Fail(o.err)
		return
	}
	EnsureGroupSpace(b)
	b.Delete(GroupSpace, o.key(partition))
}

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
	_, err := o.log.Commit(ctx, b)
	if err != nil && o.t != nil {
		return o.t.changed(err)
	}
	return err
}

// Load returns the group's offsets by partition; a partition without is missing.
func (o *Offsets) Load(ctx context.Context) (map[int32]Offset, error) {
	if o.err != nil {
		return nil, o.err
	}
	if o.t != nil {
		if err := o.t.usable("load offsets"); err != nil {
			return nil, err
		}
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

func (o *Offsets) key(partition int32) []byte {
	return binary.BigEndian.AppendUint32(slices.Clip(o.prefix), uint32(partition))
}

// EnsureGroupSpace puts into b that [GroupSpace] exists. A server that keeps more about
// groups there uses keys that do not begin with 'o'.
func EnsureGroupSpace(b *mainstem.Batch) { b.Ensure(GroupSpace, groupPolicy) }

// StoredOffset is an offset of a group as it is stored. The topic may have been
// deleted meanwhile: compare its ID.
type StoredOffset struct {
	Offset
	Topic     string
	ID        ID
	Partition int32
	Time      time.Time // when it was committed

	key     []byte
	version mainstem.Version
}

// ForgetTo puts into b that the group has no offset there.
func (s *StoredOffset) ForgetTo(b *mainstem.Batch) { b.Delete(GroupSpace, s.key) }

// ForgetUnchangedTo is ForgetTo on condition that no offset was stored there since:
// else b fails with Conflict.
func (s *StoredOffset) ForgetUnchangedTo(b *mainstem.Batch) {
	b.IfVersion(GroupSpace, s.key, s.version)
	s.ForgetTo(b)
}

// StoredOffsets yields all that a consumer group has stored, in no useful order.
func StoredOffsets(ctx context.Context, log mainstem.Log, group string) iter.Seq2[StoredOffset, error] {
	if err := ValidateGroup(group); err != nil {
		return func(yield func(StoredOffset, error) bool) { yield(StoredOffset{}, err) }
	}
	return scanOffsets(ctx, log, appendText([]byte{offsetKind}, group))
}

// scanOffsets yields the stored offsets whose keys begin with prefix.
func scanOffsets(ctx context.Context, log mainstem.Log, prefix []byte) iter.Seq2[StoredOffset, error] {
	return func(yield func(StoredOffset, error) bool) {
		for rec, err := range log.Scan(ctx, GroupSpace, mainstem.Range{Prefix: prefix}) {
			if errors.Is(err, mainstem.ErrNotFound) {
				return // no group has ever stored an offset
			}
			if err != nil {
				yield(StoredOffset{}, err)
				return
			}
			s, err := parseStored(rec)
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

func parseStored(rec mainstem.Record) (StoredOffset, error) {
	s := StoredOffset{key: slices.Clone(rec.Key), version: rec.Version, Time: rec.Time}
	_, rest, err := cutText(rec.Key[1:])
	if err == nil {
		s.Topic, rest, err = cutText(rest)
	}
	if err == nil && len(rest) != 4 {
		err = fmt.Errorf("the key has %d bytes", len(rec.Key))
	}
	if err == nil {
		s.Partition = int32(binary.BigEndian.Uint32(rest))
		s.Offset, s.ID, err = decodeOffset(rec.Value)
	}
	if err != nil {
		err = corruptOffset(s.key, err)
	}
	return s, err
}

// cutText is the inverse of appendText; it returns what follows the text.
func cutText(b []byte) (text string, rest []byte, err error) {
	if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
		return "", nil, errors.New("the key ends within a name")
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	return string(b[2:n]), b[n:], nil
}

func corruptOffset(key []byte, err error) error {
	return &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "load offsets", Space: GroupSpace, Key: key, Err: err}
}

// StoredGroups yields the names of the groups that have stored offsets. It
// costs one lookup for each of them, however many offsets they have.
func StoredGroups(ctx context.Context, log mainstem.Log) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		at := []byte{offsetKind}
		for {
			key, err := nextKey(ctx, log, at)
			if err != nil {
				yield("", err)
				return
			}
			if key == nil {
				return
			}
			group, _, err := cutText(key[1:])
			if err != nil {
				yield("", corruptOffset(key, err))
				return
			}
			if !yield(group, nil) {
				return
			}
			at = afterPrefix(appendText([]byte{offsetKind}, group))
		}
	}
}

// nextKey returns the first key of a stored offset at or after from; nil if there is none.
func nextKey(ctx context.Context, log mainstem.Log, from []byte) ([]byte, error) {
	r := mainstem.Range{Start: from, End: []byte{offsetKind + 1}, KeysOnly: true, Limit: 1}
	for rec, err := range log.Scan(ctx, GroupSpace, r) {
		if errors.Is(err, mainstem.ErrNotFound) {
			return nil, nil
		}
		return slices.Clone(rec.Key), err
	}
	return nil, nil
}

// afterPrefix returns the smallest key above all that begin with prefix, which
// holds a byte below 0xff.
func afterPrefix(prefix []byte) []byte {
	out := slices.Clone(prefix)
	for out[len(out)-1] == 0xff {
		out = out[:len(out)-1]
	}
	out[len(out)-1]++
	return out
}
