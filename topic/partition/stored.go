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
	s.UnchangedTo(b)
	s.ForgetTo(b)
}

// UnchangedTo puts into b the condition that no offset was stored there since, or forgotten.
func (s *StoredOffset) UnchangedTo(b *mainstem.Batch) { b.IfVersion(GroupSpace, s.key, s.version) }

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
