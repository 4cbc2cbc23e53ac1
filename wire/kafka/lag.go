package kafka

import (
	"context"
	"errors"
	"iter"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// Lag is how far a consumer group is behind in one partition.
type Lag struct {
	Group     string
	Topic     string
	Partition int32
	Next      int64 // the offset that the group has stored: the first it has not handled
	End       int64 // of the partition
}

// Offsets returns how many offsets the group is behind, at least 0. In a partition
// with gaps in its offsets there are fewer records than that.
func (l Lag) Offsets() int64 { return max(l.End-l.Next, 0) }

// Lags yields the lag of every group in every partition for which it has stored an
// offset. It costs a read for each of them.
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
					continue // the topic is gone, or another has its name
				}
				if !yield(l, err) || err != nil {
					return
				}
			}
		}
	}
}

// endOf returns the end of the partition that an offset is of, and remembers it.
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
