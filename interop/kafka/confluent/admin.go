package confluent

import (
	"context"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	ours "github.com/mainstemdev/mainstem/interop/kafka"
)

// Admin is an AdminClient.
type Admin struct{ a *kafka.AdminClient }

// Admin opens one.
func (c client) Admin(context.Context) (ours.Admin, error) {
	a, err := kafka.NewAdminClient(c.config(nil))
	return Admin{a}, err
}

// failed returns the error of a result, nil if it is the one that means none.
func failed(err error, e kafka.Error) error {
	if err == nil && e.Code() != kafka.ErrNoError {
		err = e
	}
	return err
}

func topicError(r []kafka.TopicResult, err error) error {
	if err != nil {
		return err
	}
	return failed(nil, r[0].Error)
}

// CreateTopic creates a topic.
func (a Admin) CreateTopic(ctx context.Context, name string, partitions int, configs map[string]string) error {
	return topicError(a.a.CreateTopics(ctx, []kafka.TopicSpecification{{
		Topic: name, NumPartitions: partitions, ReplicationFactor: 1, Config: configs,
	}}))
}

// Topics lists topics.
func (a Admin) Topics(context.Context) (map[string]int, error) {
	m, err := a.a.GetMetadata(nil, true, callPatience)
	if err != nil {
		return nil, err
	}
	all := map[string]int{}
	for name, t := range m.Topics {
		all[name] = len(t.Partitions)
	}
	return all, nil
}

// AddPartitions grows a topic.
func (a Admin) AddPartitions(ctx context.Context, name string, total int) error {
	return topicError(a.a.CreatePartitions(ctx, []kafka.PartitionsSpecification{{Topic: name, IncreaseTo: total}}))
}

// Configs describes a topic.
func (a Admin) Configs(ctx context.Context, name string) (map[string]string, error) {
	r, err := a.a.DescribeConfigs(ctx, []kafka.ConfigResource{{Type: kafka.ResourceTopic, Name: name}})
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, e := range r[0].Config {
		all[e.Name] = e.Value
	}
	return all, failed(nil, r[0].Error)
}

// SetConfig changes one configuration.
func (a Admin) SetConfig(ctx context.Context, name, key, value string) error {
	r, err := a.a.IncrementalAlterConfigs(ctx, []kafka.ConfigResource{{
		Type: kafka.ResourceTopic, Name: name,
		Config: []kafka.ConfigEntry{{Name: key, Value: value, IncrementalOperation: kafka.AlterConfigOpTypeSet}},
	}})
	if err != nil {
		return err
	}
	return failed(nil, r[0].Error)
}

// DeleteRecords moves the start of partition 0.
func (a Admin) DeleteRecords(ctx context.Context, name string, before int64) error {
	r, err := a.a.DeleteRecords(ctx, []kafka.TopicPartition{{Topic: &name, Offset: kafka.Offset(before)}})
	if err == nil {
		err = r.DeleteRecordsResults[0].TopicPartition.Error
	}
	return err
}

// Offsets lists the offsets of partition 0.
func (a Admin) Offsets(ctx context.Context, name string) (start, end int64, err error) {
	list := func(s kafka.OffsetSpec) (offset int64, err error) {
		p := kafka.TopicPartition{Topic: &name}
		r, err := a.a.ListOffsets(ctx, map[kafka.TopicPartition]kafka.OffsetSpec{p: s})
		for _, info := range r.ResultInfos {
			offset, err = int64(info.Offset), failed(err, info.Error)
		}
		return offset, err
	}
	if start, err = list(kafka.EarliestOffsetSpec); err != nil {
		return 0, 0, err
	}
	end, err = list(kafka.LatestOffsetSpec)
	return start, end, err
}

// DeleteTopic deletes a topic.
func (a Admin) DeleteTopic(ctx context.Context, name string) error {
	return topicError(a.a.DeleteTopics(ctx, []string{name}))
}

// Groups lists groups.
func (a Admin) Groups(ctx context.Context) ([]string, error) {
	r, err := a.a.ListConsumerGroups(ctx)
	var names []string
	for _, g := range r.Valid {
		names = append(names, g.GroupID)
	}
	return names, err
}

// Group describes one.
func (a Admin) Group(ctx context.Context, name string) (state string, members int, err error) {
	r, err := a.a.DescribeConsumerGroups(ctx, []string{name})
	if err != nil {
		return "", 0, err
	}
	g := r.ConsumerGroupDescriptions[0]
	return g.State.String(), len(g.Members), failed(nil, g.Error)
}

// GroupOffsets returns what a group has committed.
func (a Admin) GroupOffsets(ctx context.Context, group, topic string) (map[int32]int64, error) {
	r, err := a.a.ListConsumerGroupOffsets(ctx, []kafka.ConsumerGroupTopicPartitions{{Group: group}})
	if err != nil {
		return nil, err
	}
	all := map[int32]int64{}
	for _, p := range r.ConsumerGroupsTopicPartitions[0].Partitions {
		if *p.Topic == topic {
			all[p.Partition] = int64(p.Offset)
		}
	}
	return all, nil
}

// DeleteGroup deletes a group.
func (a Admin) DeleteGroup(ctx context.Context, name string) error {
	r, err := a.a.DeleteConsumerGroups(ctx, []string{name})
	if err != nil {
		return err
	}
	return failed(nil, r.ConsumerGroupResults[0].Error)
}

// Close closes the client.
func (a Admin) Close() error {
	a.a.Close()
	return nil
}
