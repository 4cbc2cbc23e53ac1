package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
)

// ListOffsets, versions 1 to 11.
//
//	v2   isolation level
//	v4   leader epochs
//	v7   -3, the newest timestamp (KIP-734)
//	v8   -4, the earliest offset that is local (KIP-405)
//	v9   -5, the latest that is tiered (KIP-1005)
//	v11  -6, the earliest that will be tiered (KIP-1023)
//
// There is no tiered storage: all records are local, and -5 and -6 find nothing, as with a
// broker of Kafka whose tiered storage is off. The special timestamps are served in every
// version.

// Timestamps with a special meaning, see ListOffsetsRequest in Kafka's protocol.
const (
	latestOffset          = -1
	earliestOffset        = -2
	maxTimestampOffset    = -3 // KIP-734
	earliestLocalOffset   = -4 // KIP-405
	latestTieredOffset    = -5 // KIP-1005
	earliestPendingUpload = -6 // KIP-1023
)

// readCommitted is the isolation level of readers that do not see open and aborted
// transactions.
const readCommitted = 1

// listOffsets answers with the offsets of partitions at timestamps: start, end, or the first
// record at or after a time.
func (s *Server) listOffsets(ctx context.Context, c *conn, req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, t := range req.Topics {
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = t.Topic
		src, err := s.source(ctx, t.Topic, topic.ID{})
		for _, p := range t.Partitions {
			one := kmsg.NewListOffsetsResponseTopicPartition()
			one.Partition, one.Timestamp, one.Offset, one.LeaderEpoch = p.Partition, -1, -1, -1
			if one.ErrorCode = epochCode(p.CurrentLeaderEpoch); err != nil {
				one.ErrorCode = s.failure(c, "ListOffsets", err)
			}
			if one.ErrorCode == 0 {
				found, err := s.findOffset(ctx, src, p.Partition, p.Timestamp, req.IsolationLevel == readCommitted)
				one.ErrorCode = s.failure(c, "ListOffsets", err)
				if err == nil && found.Offset >= 0 {
					one.Offset, one.LeaderEpoch = found.Offset, leaderEpoch
				}
				if err == nil && !found.Time.IsZero() {
					one.Timestamp = found.Time.UnixMilli()
				}
			}
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// findOffset finds the offset of a timestamp or of a special one; -1 means that there is none.
// With committed, the end is the last stable offset, and a record behind it is not found.
func (s *Server) findOffset(ctx context.Context, src partition.Reader, num int32, timestamp int64, committed bool) (partition.Found, error) {
	var found partition.Found
	var ok bool
	var err error
	switch timestamp {
	case earliestOffset, earliestLocalOffset:
		found.Offset, err = src.Start(ctx, num)
		return found, err
	case latestOffset:
		if found.Offset, err = src.End(ctx, num); err == nil && committed {
			found.Offset, err = s.stableEnd(ctx, src, num, found.Offset)
		}
		return found, err
	case latestTieredOffset, earliestPendingUpload:
		_, err = src.End(ctx, num) // nothing is tiered or will be, but the partition must exist
		return partition.Found{Offset: -1}, err
	case maxTimestampOffset:
		found, ok, err = src.MaxTimestamp(ctx, num)
	default:
		if timestamp < 0 {
			return found, mainstem.Errorf(mainstem.KindInvalid, "kafka", "timestamp %d has no meaning: want 0 or more, or %d to %d", timestamp, earliestPendingUpload, latestOffset)
		}
		found, ok, err = src.OffsetForTime(ctx, num, time.UnixMilli(timestamp))
	}
	if err == nil && ok && committed {
		// A record at or after the last stable offset may be part of a transaction that is aborted later.
		var end int64
		if end, err = s.stableEnd(ctx, src, num, found.Offset+1); err == nil && found.Offset >= end {
			ok = false
		}
	}
	if err != nil || !ok {
		return partition.Found{Offset: -1}, err
	}
	return found, nil
}

// stableEnd returns the last stable offset, or end if that comes first.
func (s *Server) stableEnd(ctx context.Context, src partition.Reader, num int32, end int64) (int64, error) {
	if t, ok := src.(*topic.Topic); ok {
		return s.producers.Stable(ctx, t, num, end)
	}
	return end, nil // no transactions
}

// epochCode returns the error code for the leader epoch that a client sent, 0 if it is right
// or -1, none.
func epochCode(epoch int32) int16 {
	switch {
	case epoch > leaderEpoch:
		return kerr.UnknownLeaderEpoch.Code
	case epoch >= 0 && epoch < leaderEpoch:
		return kerr.FencedLeaderEpoch.Code
	}
	return 0
}
