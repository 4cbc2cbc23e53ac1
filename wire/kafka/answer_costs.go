package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerCost says how much memory an answer may take because of its request: the decoded
// answer, its messages, and the encoded answer in a buffer up to twice as large. Data of the
// log does not count, see wide, nor do names that the answer repeats once.
type answerCost struct {
	element int // bytes for each element of an array of the request
	text    int // bytes for each byte of the request, for messages that quote names
}

var (
	// codesCost is the cost of answers that have numbers and error codes for each element.
	codesCost = answerCost{256, 0}
	// messagesCost is the cost of answers that may have a message for each element. A message
	// may have up to 4 bytes for each of the name that it quotes.
	messagesCost = answerCost{640, 16}
)

// answerCosts are the costs that are not codesCost. The tests send requests that make the
// encoded answers as large as possible.
var answerCosts = map[int16]answerCost{
	// A fetch reserves memory itself. Members of a group would keep the memory while they
	// wait for others, and their answers do not repeat the request.
	int16(kmsg.Fetch): {}, int16(kmsg.JoinGroup): {}, int16(kmsg.SyncGroup): {},

	// A message with the name of the topic for each partition. For Produce, also the
	// producer.Append.
	int16(kmsg.Produce): {1024, 0}, int16(kmsg.ElectLeaders): {1200, 16}, int16(kmsg.AlterPartitionAssignments): {1200, 16},

	int16(kmsg.CreateTopics):    {8 << 10, 16}, // all configurations of each topic
	int16(kmsg.DescribeConfigs): {2 << 10, 16}, // all configurations of each group, which need not exist
	int16(kmsg.FindCoordinator): {1 << 10, 0},  // the host for each key

	int16(kmsg.DeleteTopics): messagesCost, int16(kmsg.CreatePartitions): messagesCost,
	int16(kmsg.AlterConfigs): messagesCost, int16(kmsg.IncrementalAlterConfigs): messagesCost,
	int16(kmsg.CreateACLs): messagesCost, int16(kmsg.DeleteACLs): messagesCost,
	int16(kmsg.AlterClientQuotas): messagesCost, int16(kmsg.UpdateFeatures): messagesCost,
	int16(kmsg.AlterUserSCRAMCredentials): messagesCost, int16(kmsg.DescribeUserSCRAMCredentials): messagesCost,
	int16(kmsg.DescribeGroups): messagesCost, int16(kmsg.ConsumerGroupDescribe): messagesCost,
	int16(kmsg.DescribeProducers): messagesCost, int16(kmsg.DescribeTransactions): messagesCost,
}

// expected returns how many bytes of memory the answer to a request may take, at most, besides
// data of the log. elements is the number of elements in the request, body its size in bytes.
func expected(key int16, elements, body int) int {
	cost, ok := answerCosts[key]
	if !ok {
		cost = codesCost
	}
	return elements*cost.element + body*cost.text
}

// withoutRepeats removes from a request everything that it names again, if the answer has data
// of the log for each name: a small request must not get the same data many times. Clients do
// not send such requests. The handlers of this package ignore repeats themselves.
func withoutRepeats(req kmsg.Request) {
	switch req := req.(type) {
	case *kmsg.DescribeGroupsRequest:
		req.Groups = distinct(req.Groups)
	case *kmsg.ConsumerGroupDescribeRequest:
		req.Groups = distinct(req.Groups)
	case *kmsg.DescribeTransactionsRequest:
		req.TransactionalIDs = distinct(req.TransactionalIDs)
	case *kmsg.DescribeProducersRequest:
		req.Topics = merged(req.Topics, func(t *kmsg.DescribeProducersRequestTopic) (string, *[]int32) { return t.Topic, &t.Partitions })
	case *kmsg.OffsetFetchRequest:
		req.Topics = merged(req.Topics, func(t *kmsg.OffsetFetchRequestTopic) (string, *[]int32) { return t.Topic, &t.Partitions })
		req.Groups = mergedGroups(req.Groups)
	}
}

// mergedGroups makes one element of all that name the same group. Null topics, which mean all,
// remain null.
func mergedGroups(groups []kmsg.OffsetFetchRequestGroup) []kmsg.OffsetFetchRequestGroup {
	first := make(map[string]int, len(groups)) // in out
	out := groups[:0]
	for _, g := range groups {
		if i, ok := first[g.Group]; !ok {
			first[g.Group] = len(out)
			out = append(out, g)
		} else if out[i].Topics == nil || g.Topics == nil {
			out[i].Topics = nil
		} else {
			out[i].Topics = append(out[i].Topics, g.Topics...)
		}
	}
	for i := range out {
		out[i].Topics = merged(out[i].Topics, func(t *kmsg.OffsetFetchRequestGroupTopic) (topicKey, *[]int32) {
			return topicKey{t.Topic, t.TopicID}, &t.Partitions
		})
	}
	return out
}

// merged makes one element of all that name the same topic, with each partition once. It
// changes topics. of returns the name and the partitions of an element.
func merged[T any, K comparable](topics []T, of func(*T) (K, *[]int32)) []T {
	first := make(map[K]int, len(topics)) // in out
	out := topics[:0]
	for i := range topics {
		name, nums := of(&topics[i])
		if j, ok := first[name]; ok {
			_, all := of(&out[j])
			*all = append(*all, *nums...)
			continue
		}
		first[name] = len(out)
		out = append(out, topics[i])
	}
	for i := range out {
		_, nums := of(&out[i])
		*nums = distinct(*nums)
	}
	return out
}

// distinct removes all but the first of equal keys. It changes keys.
func distinct[K comparable](keys []K) []K {
	seen := make(map[K]bool, len(keys))
	return slices.DeleteFunc(keys, func(k K) bool {
		again := seen[k]
		seen[k] = true
		return again
	})
}
