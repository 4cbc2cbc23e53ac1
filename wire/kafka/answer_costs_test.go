package kafka_test

import (
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/bounds"
)

// validated is a request to check whether n topics could be created.
func validated(n int) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.ValidateOnly = true
	for i := range n {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = "t"+strconv.Itoa(i), -1, -1
		req.Topics = append(req.Topics, t)
	}
	return req
}

// nums returns n numbers of partitions that no topic has.
func nums(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(1_000_000 + i)
	}
	return out
}

// amplified are requests of n elements with answers that are as large as possible.
func amplified(n int) []kmsg.Request {
	longest := strings.Repeat("x", topic.MaxName)
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: longest, Partitions: nums(n)}}
	move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	move.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: longest}}
	produce := kmsg.NewPtrProduceRequest()
	produce.Acks, produce.TimeoutMillis = -1, 1000
	produce.Topics = []kmsg.ProduceRequestTopic{{Topic: "t"}}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = make([]string, n)
	acls, noACLs := kmsg.NewPtrCreateACLsRequest(), kmsg.NewPtrDeleteACLsRequest()
	noACLs.Filters = make([]kmsg.DeleteACLsRequestFilter, n)
	acls.Creations = make([]kmsg.CreateACLsRequestCreation, n)
	quotas := kmsg.NewPtrAlterClientQuotasRequest()
	quotas.Entries = make([]kmsg.AlterClientQuotasRequestEntry, n)
	remove, groups, users := kmsg.NewPtrDeleteTopicsRequest(), kmsg.NewPtrDescribeGroupsRequest(), kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	alter, change, describe := kmsg.NewPtrAlterConfigsRequest(), kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewPtrDescribeConfigsRequest()
	describe.IncludeDocumentation, describe.IncludeSynonyms = true, true
	list := kmsg.NewPtrListOffsetsRequest()
	list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t"}}
	for i, num := range nums(n) {
		short := strconv.FormatInt(int64(i), 36)
		move.Topics[0].Partitions = append(move.Topics[0].Partitions, kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: num, Replicas: []int32{-1 << 31}})
		produce.Topics[0].Partitions = append(produce.Topics[0].Partitions, kmsg.ProduceRequestTopicPartition{Partition: num})
		remove.Topics = append(remove.Topics, kmsg.DeleteTopicsRequestTopic{Topic: kmsg.StringPtr("\xff" + short)})
		groups.Groups = append(groups.Groups, short)
		users.Deletions = append(users.Deletions, kmsg.AlterUserSCRAMCredentialsRequestDeletion{Name: short})
		alter.Resources = append(alter.Resources, kmsg.AlterConfigsRequestResource{ResourceType: -100, ResourceName: short})
		change.Resources = append(change.Resources, kmsg.IncrementalAlterConfigsRequestResource{ResourceType: -100, ResourceName: short})
		describe.Resources = append(describe.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: short})
		list.Topics[0].Partitions = append(list.Topics[0].Partitions, kmsg.ListOffsetsRequestTopicPartition{Partition: num})
	}
	return []kmsg.Request{validated(n), elect, move, produce, find, acls, noACLs, quotas, remove, groups, users, alter, change, describe, list}
}

// An answer, encoded in a buffer that is up to twice as large, has the memory that is reserved
// before the request is served.
func TestAnswersAreAsLargeAsExpected(t *testing.T) {
	host := strings.Repeat("h", 255)
	b := start(t, nil, &kafka.Listener{Advertise: host + ":1"})
	b.topic(t, "t", 1)
	keys := map[int16]int16{}
	for _, k := range ask[*kmsg.ApiVersionsResponse](b.raw(t), apiVersions(), 3).ApiKeys {
		keys[k.ApiKey] = k.MaxVersion
	}
	for _, req := range amplified(2000) {
		version := keys[req.Key()]
		if req.Key() == int16(kmsg.Produce) {
			version = 12 // the last with names
		}
		t.Run(kmsg.NameForKey(req.Key()), func(t *testing.T) {
			c := b.raw(t)
			c.send(req, version)
			n := c.begins()
			body := req.AppendTo(nil)
			_, elements, err := bounds.Check(req.Key(), version, body, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			if most := kafka.Expected(req.Key(), elements, len(body)); 2*n > most {
				t.Errorf("%d elements in %d bytes have an answer of %d bytes: want half of %d at most", elements, len(body), n, most)
			}
		})
	}
}

// A request is served when the memory for its answer is free, not before: the topics are not
// created meanwhile.
func TestRequestsWaitForMemoryOfTheirAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 4 << 20
		log := testengines.Memory(t)
		memory := budget.New("process", limit)
		s, l := pipedBy(t, log, &kafka.Options{MaxRequest: 1 << 20, Memory: memory}, nil)
		requests, _ := s.Budgets()
		full := requests.Hold()
		full.Take(limit)
		c := l.dial(t)
		req := validated(20) // a request of some hundred bytes
		req.ValidateOnly = false
		c.send(req, 7)
		synctest.Wait()
		if s := statsOf(t, memory, "kafka requests"); s.Waiting != 1 || s.Used != limit {
			t.Errorf("%+v", s)
		}
		if _, err := log.Space(t.Context(), topic.Space("t0")); mainstem.KindOf(err) != mainstem.KindNotFound {
			t.Errorf("the topic was created without memory for the answer: %v", err)
		}
		full.Release()
		n := c.begins()
		if s := statsOf(t, memory, "kafka requests"); s.Used > 64<<10 {
			t.Errorf("the answer is encoded, and there is still memory for building it: %+v", s)
		}
		if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		if _, err := log.Space(t.Context(), topic.Space("t0")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s := memory.Stats()[0]; s.Used != 0 {
			t.Errorf("%+v", s)
		}
		full.Take(limit)
		defer full.Release()
		c.send(req, 7)
		begin := time.Now()
		c.closed()
		if took := time.Since(begin); took != kafka.DefaultWriteTimeout {
			t.Errorf("it took %s", took)
		}
	})
}

// A request whose answer may take more memory than there is for all requests is refused at
// once.
func TestAnswersLargerThanTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		l := pipedServer(t, &kafka.Options{MaxRequest: 1 << 20, MaxInFlight: 1 << 20, Logger: slog.New(slog.NewTextHandler(&text, nil))}, nil)
		for _, req := range []kmsg.Request{validated(1000), amplified(2000)[1]} {
			c := l.dial(t)
			begin := time.Now()
			c.send(req, 2)
			c.closed()
			if took := time.Since(begin); took != 0 {
				t.Errorf("it took %s", took)
			}
		}
		synctest.Wait()
		if n := strings.Count(text.String(), "the limit is 1048576; send several smaller requests"); n != 2 {
			t.Errorf("%d refusals: %s", n, &text)
		}
	})
}

// What a request names again is answered once.
func TestRepeatsAreAnsweredOnce(t *testing.T) {
	b := start(t, nil, nil)
	b.topic(t, "t", 2)
	c := b.raw(t)
	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Groups = []string{"g", "h", "g", "g"}
	if got := ask[*kmsg.DescribeGroupsResponse](c, groups, 5).Groups; len(got) != 2 || got[0].Group != "g" || got[1].Group != "h" {
		t.Errorf("%+v", got)
	}
	offsets := kmsg.NewPtrOffsetFetchRequest()
	offsets.Group = "g"
	offsets.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{1, 1}}, {Topic: "u", Partitions: []int32{0}}, {Topic: "t", Partitions: []int32{0, 1}}}
	got := ask[*kmsg.OffsetFetchResponse](c, offsets, 7).Topics
	if len(got) != 2 || got[0].Topic != "t" || len(got[0].Partitions) != 2 || got[0].Partitions[0].Partition != 1 || len(got[1].Partitions) != 1 {
		t.Errorf("%+v", got)
	}
	of := func(name string, nums ...int32) kmsg.OffsetFetchRequestGroup {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.Topics = name, []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: nums}}
		return g
	}
	offsets = kmsg.NewPtrOffsetFetchRequest()
	offsets.Groups = []kmsg.OffsetFetchRequestGroup{of("g", 1), of("h", 0), of("g", 0, 1)}
	if got := ask[*kmsg.OffsetFetchResponse](c, offsets, 8).Groups; len(got) != 2 || len(got[0].Topics) != 1 || len(got[0].Topics[0].Partitions) != 2 {
		t.Errorf("%+v", got)
	}
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0, 0}}, {Topic: "t", Partitions: []int32{1}}}
	if got := ask[*kmsg.DescribeProducersResponse](c, producers, 0).Topics; len(got) != 1 || len(got[0].Partitions) != 2 {
		t.Errorf("%+v", got)
	}
}
