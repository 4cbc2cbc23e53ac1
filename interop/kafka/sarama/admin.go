package sarama

import (
	"context"
	"errors"

	"github.com/IBM/sarama"

	"github.com/mainstemdev/mainstem/interop/kafka"
)

// Admin is a ClusterAdmin.
type Admin struct {
	sarama.ClusterAdmin
	client sarama.Client
}

// Admin opens one.
func (c client) Admin(context.Context) (kafka.Admin, error) {
	k, err := c.config()
	if err != nil {
		return nil, err
	}
	cl, err := sarama.NewClient([]string{c.at.Address}, k)
	if err != nil {
		return nil, err
	}
	a, err := sarama.NewClusterAdminFromClient(cl)
	return Admin{a, cl}, err
}

// CreateTopic creates a topic.
func (a Admin) CreateTopic(_ context.Context, name string, partitions int, configs map[string]string) error {
	d := &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1, ConfigEntries: map[string]*string{}}
	for k, v := range configs {
		d.ConfigEntries[k] = &v
	}
	return a.ClusterAdmin.CreateTopic(name, d, false)
}

// Topics lists topics.
func (a Admin) Topics(context.Context) (map[string]int, error) {
	topics, err := a.ListTopics()
	all := map[string]int{}
	for name, d := range topics {
		all[name] = int(d.NumPartitions)
	}
	return all, err
}

// AddPartitions grows a topic.
func (a Admin) AddPartitions(_ context.Context, name string, total int) error {
	return a.CreatePartitions(name, int32(total), nil, false)
}

// Configs describes a topic.
func (a Admin) Configs(_ context.Context, name string) (map[string]string, error) {
	r, err := a.DescribeConfigs([]*sarama.ConfigResource{{Type: sarama.TopicResource, Name: name}}, sarama.DescribeConfigsOptions{})
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, resource := range r {
		for _, e := range resource.Configs {
			all[e.Name] = e.Value
		}
		if resource.ErrorCode != 0 {
			err = resource.ErrorCode
		}
	}
	return all, err
}

// SetConfig changes one configuration.
func (a Admin) SetConfig(_ context.Context, name, key, value string) error {
	return a.IncrementalAlterConfig(sarama.TopicResource, name, map[string]sarama.IncrementalAlterConfigsEntry{
		key: {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value},
	}, false)
}

// DeleteRecords moves the start of partition 0.
func (a Admin) DeleteRecords(_ context.Context, name string, before int64) error {
	return a.ClusterAdmin.DeleteRecords(name, map[int32]int64{0: before})
}

// Offsets lists the offsets of partition 0.
func (a Admin) Offsets(_ context.Context, name string) (start, end int64, err error) {
	if start, err = a.client.GetOffset(name, 0, sarama.OffsetOldest); err != nil {
		return 0, 0, err
	}
	end, err = a.client.GetOffset(name, 0, sarama.OffsetNewest)
	return start, end, err
}

// DeleteTopic deletes a topic.
func (a Admin) DeleteTopic(_ context.Context, name string) error {
	return a.ClusterAdmin.DeleteTopic(name)
}

// Groups lists groups.
func (a Admin) Groups(context.Context) ([]string, error) {
	groups, err := a.ListConsumerGroups()
	var names []string
	for name := range groups {
		names = append(names, name)
	}
	return names, err
}

// Group describes one.
func (a Admin) Group(_ context.Context, name string) (state string, members int, err error) {
	groups, err := a.DescribeConsumerGroups([]string{name})
	if err != nil {
		return "", 0, err
	}
	g := groups[0]
	if g.Err != sarama.ErrNoError {
		err = g.Err
	}
	return g.State, len(g.Members), err
}

// GroupOffsets returns what a group has committed.
func (a Admin) GroupOffsets(_ context.Context, group, topic string) (map[int32]int64, error) {
	groups, err := a.ListConsumerGroupOffsetsBatch(map[string]map[string][]int32{group: nil})
	if err != nil {
		return nil, err
	}
	r := groups[group]
	if r == nil {
		return nil, errors.New("no answer for the group")
	}
	if r.Err != sarama.ErrNoError {
		return nil, r.Err
	}
	all := map[int32]int64{}
	for partition, b := range r.Blocks[topic] {
		all[partition] = b.Offset
	}
	return all, nil
}

// DeleteGroup deletes a group.
func (a Admin) DeleteGroup(_ context.Context, name string) error { return a.DeleteConsumerGroup(name) }
