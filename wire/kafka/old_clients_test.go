package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Old librdkafka looks for single versions, not ranges: see KAFKA-18659.
func TestVersionsThatOldClientsLookFor(t *testing.T) {
	served := map[int16][2]int16{}
	for _, k := range ask[*kmsg.ApiVersionsResponse](start(t, nil, nil).raw(t), apiVersions(), 0).ApiKeys {
		served[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	for _, want := range []struct {
		key     kmsg.Key
		version int16
	}{
		{kmsg.Produce, 0}, {kmsg.Produce, 3}, {kmsg.Produce, 7}, {kmsg.Fetch, 4}, {kmsg.Fetch, 10}, {kmsg.ListOffsets, 1},
		{kmsg.FindCoordinator, 0}, {kmsg.JoinGroup, 0}, {kmsg.InitProducerID, 0}, {kmsg.OffsetForLeaderEpoch, 2},
		{kmsg.SASLHandshake, 0}, {kmsg.SASLHandshake, 1},
	} {
		if v, ok := served[int16(want.key)]; !ok || want.version < v[0] || want.version > v[1] {
			t.Errorf("%s version %d is not served: %v", want.key.Name(), want.version, v)
		}
	}
}
