package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
)

// topicMetaKey holds the description of a topic in its space; see docs/format.md.
var topicMetaKey = []byte("\xffmeta")

// partitionKeys returns the partitions of a topic that hold no record: their offsets
// go on where they ended, so a copy must know of them.
func partitionKeys(ctx context.Context, from mainstem.Reader, space mainstem.SpaceInfo) ([][]byte, error) {
	if !strings.HasPrefix(space.Name, topic.SpacePrefix) {
		return nil, nil
	}
	rec, err := from.Get(ctx, space.Name, topicMetaKey)
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil, nil // it is no topic, or is being deleted
	}
	if err != nil {
		return nil, err
	}
	var meta struct{ Partitions int32 }
	if err := json.Unmarshal(rec.Value, &meta); err != nil || meta.Partitions < 0 || meta.Partitions > topic.MaxPartitions {
		return nil, &mainstem.Error{
			Kind: mainstem.KindCorrupt, Op: "copy", Space: space.Name, Key: topicMetaKey,
			Err: fmt.Errorf("the topic's description: %d partitions: %w", meta.Partitions, err),
		}
	}
	held := map[int32]bool{}
	for rec, err := range from.Scan(ctx, space.Name, mainstem.Range{End: []byte{0x80}, KeysOnly: true, Tombstones: true}) {
		if err != nil {
			return nil, err
		}
		if len(rec.Key) == 4 {
			held[int32(binary.BigEndian.Uint32(rec.Key))] = true
		}
	}
	var out [][]byte
	for n := range meta.Partitions {
		if !held[n] {
			out = append(out, binary.BigEndian.AppendUint32(nil, uint32(n)))
		}
	}
	return out, nil
}
