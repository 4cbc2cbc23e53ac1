package partition

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

// EnsureGroupSpace adds to b that [GroupSpace] exists. A server that stores more about groups there
// uses keys that do not begin with 'o'.
func EnsureGroupSpace(b *mainstem.Batch) { b.Ensure(GroupSpace, groupPolicy) }

// StoredOffset is a stored offset of a group. The topic may have been deleted since: compare its
// ID.
type StoredOffset struct {
	Offset
	Topic     string
	ID        ID
	Partition int32
	Time      time.Time // when it was committed, by the clock of the log

	key     []byte
	version mainstem.Version
}

// ForgetTo adds to b that the group has no offset there.
func (s *StoredOffset) ForgetTo(b *mainstem.Batch) { b.Delete(GroupSpace, s.key) }

// ForgetUnchangedTo is ForgetTo with the condition of UnchangedTo.
func (s *StoredOffset) ForgetUnchangedTo(b *mainstem.Batch) {
	s.UnchangedTo(b)
	s.ForgetTo(b)
}

// UnchangedTo adds to b the condition that the offset was neither stored again nor forgotten since
// it was read. If it does not hold, the commit fails with Conflict.
func (s *StoredOffset) UnchangedTo(b *mainstem.Batch) { b.IfVersion(GroupSpace, s.key, s.version) }

// StoredOffsets yields all offsets that a consumer group has stored, as of one moment, in no
// particular order. An error ends the sequence.
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

// parseStored decodes a record of the group space with a key of an offset.
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

func corruptOffset(key []byte, err error) error {
	return &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "load offsets", Space: GroupSpace, Key: key, Err: err}
}

// StoredGroups yields the names of the groups that have stored offsets, in no particular order and
// not as of one moment. It reads one record for each group, however many offsets the group has.
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

// afterPrefix returns the smallest key above all keys that begin with prefix. A byte of prefix must
// be below 0xff.
func afterPrefix(prefix []byte) []byte {
	out := slices.Clone(prefix)
	for out[len(out)-1] == 0xff {
		out = out[:len(out)-1]
	}
	out[len(out)-1]++
	return out
}
