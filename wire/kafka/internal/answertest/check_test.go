package answertest_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/answertest"
)

// Every nullable field of an answer has a rule with the right first version. A new field in the
// protocol library needs a decision.
func TestRulesAreComplete(t *testing.T) {
	rules := map[kmsg.Key]map[string]int16{}
	for _, r := range answertest.Rules {
		if rules[r.Key] == nil {
			rules[r.Key] = map[string]int16{}
		}
		rules[r.Key][r.Path] = r.Since
	}
	for key, want := range rules {
		got := map[string]int16{}
		for v := key.Response().MaxVersion(); v >= 0; v-- {
			for _, path := range answertest.Nullable(key, v) {
				got[path] = v
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: rules for %v, nullable since: %v", key.Name(), want, got)
		}
	}
}

func TestCheck(t *testing.T) {
	partition := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	partition.EligibleLeaderReplicas = []int32{}
	topic := kmsg.NewDescribeTopicPartitionsResponseTopic()
	topic.Partitions = append(topic.Partitions, partition)
	describe := kmsg.NewPtrDescribeTopicPartitionsResponse()
	describe.Topics = append(describe.Topics, topic)

	join := kmsg.NewPtrJoinGroupResponse()
	join.Version = 7
	failed := kmsg.NewPtrJoinGroupResponse()
	failed.Version, failed.ErrorCode = 7, 25
	old := kmsg.NewPtrJoinGroupResponse() // of a version that has no null here

	for _, tt := range []struct {
		name string
		resp kmsg.Response
		want []string
	}{
		{"null and empty", describe, []string{"Topics.Topic", "Topics.Partitions.LastKnownELR"}},
		{"without an error", join, []string{"ProtocolType", "Protocol"}},
		{"with an error", failed, nil},
		{"before the field was nullable", old, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			if err := answertest.Check(tt.resp); err != nil {
				for line := range strings.SplitSeq(err.Error(), "\n") {
					_, rest, _ := strings.Cut(line, ": ")
					path, _, _ := strings.Cut(rest, " ")
					got = append(got, path)
				}
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("null against the rules: %v, want %v", got, tt.want)
			}
		})
	}
}
