package kafka

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
)

// maxDescribedPartitions bounds the partitions of an answer, as Kafka's
// max.request.partition.size.limit does. The client asks for the others with the cursor of
// the answer.
const maxDescribedPartitions = 2000

// DescribeTopicPartitions, version 0 (KIP-966). Java's Admin.describeTopics sends it
// from version 3.8 on, instead of Metadata.
//
// The lists of eligible leader replicas and of last known ones are empty, as those of a
// broker that does not keep them. They are never null: the schema allows null, but Java's
// client fails on it.

// describeTopicPartitions answers with one page of the topics asked for, or of all topics if
// none is named, in the order of their names. A topic that does not exist has an error, and
// counts as one partition.
func (s *Server) describeTopicPartitions(ctx context.Context, c *conn, req *kmsg.DescribeTopicPartitionsRequest) *kmsg.DescribeTopicPartitionsResponse {
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	names, err := s.describedNames(ctx, req)
	if err != nil {
		out := kmsg.NewDescribeTopicPartitionsResponseTopic()
		out.Topic, out.ErrorCode = new(string), s.outcomeOf(c, "DescribeTopicPartitions", err)
		resp.Topics = append(resp.Topics, out)
		return resp
	}
	limit := int32(maxDescribedPartitions)
	if req.ResponsePartitionLimit > 0 {
		limit = min(limit, req.ResponsePartitionLimit)
	}
	for _, name := range names {
		from := int32(0)
		if req.Cursor != nil && req.Cursor.Topic == name {
			from = max(req.Cursor.Partition, 0)
		}
		if limit == 0 {
			resp.NextCursor = cursor(name, from)
			return resp
		}
		out, next := s.describePartitions(ctx, c, name, from, limit)
		resp.Topics = append(resp.Topics, out)
		if next >= 0 {
			resp.NextCursor = cursor(name, next)
			return resp
		}
		limit -= max(int32(len(out.Partitions)), 1)
	}
	return resp
}

// describedNames returns the names of the topics asked for, sorted, each once, from that of
// the cursor on.
func (s *Server) describedNames(ctx context.Context, req *kmsg.DescribeTopicPartitionsRequest) ([]string, error) {
	var names []string
	for i := range req.Topics {
		names = append(names, req.Topics[i].Topic)
	}
	if len(names) == 0 {
		all, err := s.sources(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range all {
			names = append(names, t.Name())
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if req.Cursor != nil {
		at, _ := slices.BinarySearchFunc(names, req.Cursor.Topic, strings.Compare)
		names = names[at:]
	}
	return names, nil
}

func cursor(name string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	next := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	next.Topic, next.Partition = name, partition
	return &next
}

// describePartitions describes at most limit partitions of one topic, beginning with from.
// next is the first partition of the next page, -1 if there are no more.
func (s *Server) describePartitions(ctx context.Context, c *conn, name string, from, limit int32) (out kmsg.DescribeTopicPartitionsResponseTopic, next int32) {
	out = kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic = &name
	src, err := s.described(ctx, name, topic.ID{})
	if out.ErrorCode = s.outcomeOf(c, "DescribeTopicPartitions", err); err != nil {
		return out, -1
	}
	out.TopicID = src.ID()
	self, none := []int32{s.o.NodeID}, []int32{}
	for num := from; num < src.Partitions(); num++ {
		if num-from == limit {
			return out, num
		}
		p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		p.Partition, p.LeaderID, p.LeaderEpoch = num, s.o.NodeID, leaderEpoch
		p.Replicas, p.ISR = self, self
		p.EligibleLeaderReplicas, p.LastKnownELR = none, none
		out.Partitions = append(out.Partitions, p)
	}
	return out, -1
}
