package kafka

import (
	"context"
	"errors"
	"iter"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// Lag is the lag of a consumer group in one partition.
type Lag struct {
	Group     string
	Topic     string
	Partition int32
	Next      int64 // the stored offset: of the first record that the group has not handled
	End       int64 // the end of the partition: the offset that the next record gets
}

// Offsets returns by how many offsets the group is behind the end, at least 0. In a partition
// with gaps there are fewer records than offsets.
func (l Lag) Offsets() int64 { return max(l.End-l.Next, 0) }

// Lags yields the lag of every group in every partition for which it has a stored offset,
// without those of partitions that do not exist any more. It reads each stored offset, and the
// end of each partition once. After an error it ends.
func (s *Server) Lags(ctx context.Context) iter.Seq2[Lag, error] {
	return func(yield func(Lag, error) bool) {
		ends := map[partitionKey]int64{}
		for group, err := range partition.StoredGroups(ctx, s.log) {
			if err != nil {
				yield(Lag{}, err)
				return
			}
			for off, err := range partition.StoredOffsets(ctx, s.log, group) {
				l := Lag{Group: group, Topic: off.Topic, Partition: off.Partition, Next: off.Next}
				if err == nil {
					l.End, err = s.endOf(ctx, &off, ends)
				}
				if errors.Is(err, mainstem.ErrNotFound) {
					continue // the topic was deleted, and may have been created again
				}
				if !yield(l, err) || err != nil {
					return
				}
			}
		}
	}
}

// endOf returns the end of the partition of an offset, and keeps it in known.
func (s *Server) endOf(ctx context.Context, off *partition.StoredOffset, known map[partitionKey]int64) (int64, error) {
	k := partitionKey{off.ID, off.Partition}
	if end, ok := known[k]; ok {
		return end, nil
	}
	src, err := s.source(ctx, off.Topic, topic.ID{})
	if err != nil {
		return 0, err
	}
	if src.ID() != off.ID {
		return 0, mainstem.Errorf(mainstem.KindNotFound, "lag", "another topic has that name now")
	}
	end, err := src.End(ctx, off.Partition)
	if err == nil {
		known[k] = end
	}
	return end, err
}
