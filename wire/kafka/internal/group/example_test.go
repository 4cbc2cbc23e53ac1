package group_test

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/group"
)

// oneTopic is a [coord.Topics] of one topic.
type oneTopic struct{ only coord.Topic }

func (o oneTopic) Topic(_ context.Context, name string) (coord.Topic, error) {
	if name != o.only.Name {
		return coord.Topic{}, mainstem.ErrNotFound
	}
	return o.only, nil
}

func (o oneTopic) ByID(_ context.Context, id topic.ID) (coord.Topic, error) {
	if id != o.only.ID {
		return coord.Topic{}, mainstem.ErrNotFound
	}
	return o.only, nil
}

func (o oneTopic) All(context.Context) ([]coord.Topic, error) { return []coord.Topic{o.only}, nil }

// A member of a consumer group joins and gets all partitions.
func Example() {
	ctx := context.Background()
	log := model.New(nil)
	defer log.Close()
	orders := coord.Topic{Name: "orders", ID: topic.ID{1}, Partitions: 3, Offsets: func(name string) coord.Offsets {
		return partition.NewOffsets(log, name, "orders", topic.ID{1})
	}}
	groups, err := group.Open(log, oneTopic{orders}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer groups.Close()

	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version = 1
	req.Group, req.MemberID = "billing", "worker-1"
	req.RebalanceTimeoutMillis = 30_000
	req.SubscribedTopicNames = []string{"orders"}
	resp := groups.ConsumerGroupHeartbeat(ctx, coord.Client{ID: "example"}, req)
	fmt.Println("epoch", resp.MemberEpoch, "partitions", resp.Assignment.Topics[0].Partitions)
	// Output: epoch 1 partitions [0 1 2]
}
