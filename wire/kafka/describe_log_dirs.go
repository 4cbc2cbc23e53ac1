package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
)

// DescribeLogDirs, versions 1 to 4 (KIP-113).
//
//	v3  an error for the whole answer
//	v4  the size of the volume (KIP-827): not known
//
// The log is shown as one directory.

// logDir is the path of the log in the answer. The real one is not revealed.
const logDir = "/log"

// describeLogDirs answers with the bytes of record batches in the partitions of topics.
// Topics that show other data, such as event stores, are left out.
func (s *Server) describeLogDirs(ctx context.Context, c *conn, req *kmsg.DescribeLogDirsRequest) *kmsg.DescribeLogDirsResponse {
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = logDir
	dir.TotalBytes, dir.UsableBytes = -1, -1 // not known
	asked := map[string]map[int32]bool{}
	for _, t := range req.Topics {
		if asked[t.Topic] == nil {
			asked[t.Topic] = map[int32]bool{}
		}
		for _, num := range t.Partitions {
			asked[t.Topic][num] = true
		}
	}
	var err error
	for t, e := range s.topics.All(ctx) {
		if err = e; err != nil {
			break
		}
		nums := asked[t.Name()]
		if req.Topics != nil && len(nums) == 0 {
			continue
		}
		out, e := s.partitionSizes(ctx, t.Name(), nums)
		if e != nil && mainstem.KindOf(e) != mainstem.KindNotFound { // deleted meanwhile
			err = e
			break
		}
		if len(out.Partitions) > 0 {
			dir.Topics = append(dir.Topics, out)
		}
	}
	dir.ErrorCode = s.outcomeOf(c, "DescribeLogDirs", err)
	resp.Dirs = append(resp.Dirs, dir)
	return resp
}

// partitionSizes returns the sizes in bytes of the partitions of a topic whose numbers are in
// nums; nil means all.
func (s *Server) partitionSizes(ctx context.Context, name string, nums map[int32]bool) (kmsg.DescribeLogDirsResponseDirTopic, error) {
	out := kmsg.NewDescribeLogDirsResponseDirTopic()
	out.Topic = name
	d, err := s.topics.Describe(ctx, name)
	if err != nil {
		return out, err
	}
	for i, p := range d.Partitions {
		if nums != nil && !nums[int32(i)] {
			continue
		}
		one := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		one.Partition, one.Size = int32(i), p.Bytes
		out.Partitions = append(out.Partitions, one)
	}
	return out, nil
}
