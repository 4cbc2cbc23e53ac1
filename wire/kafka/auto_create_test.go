package kafka_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// named asks for n topics that do not exist in one request, and counts the entries of the
// answer by their codes.
func named(t *testing.T, c *raw, prefix string, n int) map[int16]int {
	t.Helper()
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
	}
	req := metadataOf(names...)
	req.AllowAutoTopicCreation = true
	got := map[int16]int{}
	for _, topic := range ask[*kmsg.MetadataResponse](c, req, 12).Topics {
		got[topic.ErrorCode]++
	}
	return got
}

// For a client that names thousands of topics, only as many a minute are created as the limit
// allows. The others have the code upon which clients ask again.
func TestAutoCreationIsBounded(t *testing.T) {
	again, over := kerr.LeaderNotAvailable.Code, kerr.PolicyViolation.Code
	clock := new(testkit.Clock)
	m := &counted{served: map[string]int{}}
	b := start(t, &kafka.Options{AutoCreateRate: 120, AutoCreateTopics: 170, Now: clock.Now, Metrics: m}, nil)
	c := b.raw(t)
	check := func(what string, got map[int16]int, created int, otherwise int16, refused int) {
		t.Helper()
		if got[0] != created || got[otherwise] != refused {
			t.Errorf("%s: answers by code %v, want %d created and %d with code %d", what, got, created, refused, otherwise)
		}
	}
	check("one request", named(t, c, "a", 1000), 100, again, 900)
	check("the rest of the first minute", named(t, c, "b", 100), 20, again, 80)
	check("nothing is left", named(t, c, "b", 21), 20, again, 1) // those of before are there
	clock.Advance(15 * time.Second)
	check("a quarter of a minute later", named(t, c, "c", 50), 30, again, 20)
	clock.Advance(-time.Hour)
	check("the clock is set back", named(t, c, "d", 1), 0, again, 1)
	clock.Advance(10 * time.Minute)
	check("up to the number of topics", named(t, c, "e", 50), 20, over, 30)
	if m.Lock(); m.notCreated != 900+80+1+20+1+30 {
		t.Errorf("the metric counts %d topics that were not created", m.notCreated)
	}
	m.Unlock()

	req := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = "wanted", 1, -1
	req.Topics = append(req.Topics, one)
	created := ask[*kmsg.CreateTopicsResponse](c, req, 7).Topics[0]
	coded(t, created.ErrorCode, created.ErrorMessage, nil) // who asks for a topic gets it
}

// A client finds a topic that a program creates at the same time, although it has another
// number of partitions than the server would have given it.
func TestAutoCreationFindsWhatOthersCreate(t *testing.T) {
	b := start(t, &kafka.Options{AutoCreateRate: 1000, AutoCreateTopics: 1000, Partitions: 1}, nil)
	c := b.raw(t)
	for i := range 100 {
		name := fmt.Sprint("t", i)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := b.topics.Create(t.Context(), name, spec(3)); err != nil && !errors.Is(err, mainstem.ErrExists) {
				t.Error(err)
			}
		})
		req := metadataOf(name)
		req.AllowAutoTopicCreation = true
		for _, got := range ask[*kmsg.MetadataResponse](c, req, 12).Topics {
			if got.ErrorCode != 0 || len(got.Partitions) != 1 && len(got.Partitions) != 3 {
				t.Errorf("%s: code %d, %d partitions", name, got.ErrorCode, len(got.Partitions))
			}
		}
		wg.Wait()
	}
}
