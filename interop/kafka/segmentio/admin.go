package segmentio

import (
	"context"
	"errors"
	"time"

	segment "github.com/segmentio/kafka-go"

	"github.com/mainstemdev/mainstem/interop/kafka"
)

// Admin is a Client.
type Admin struct {
	c         *segment.Client
	transport *segment.Transport
}

// Admin opens one.
func (c client) Admin(context.Context) (kafka.Admin, error) {
	t, err := c.transport()
	t.MetadataTTL = 100 * time.Millisecond // Metadata answers from this cache
	return Admin{&segment.Client{Addr: segment.TCP(c.at.Address), Transport: t}, t}, err
}

// CreateTopic creates a topic.
func (a Admin) CreateTopic(ctx context.Context, name string, partitions int, configs map[string]string) error {
	topic := segment.TopicConfig{Topic: name, NumPartitions: partitions, ReplicationFactor: 1}
	for k, v := range configs {
		topic.ConfigEntries = append(topic.ConfigEntries, segment.ConfigEntry{ConfigName: k, ConfigValue: v})
	}
	r, err := a.c.CreateTopics(ctx, &segment.CreateTopicsRequest{Topics: []segment.TopicConfig{topic}})
	if err == nil {
		err = r.Errors[name]
	}
	return err
}

// Topics lists topics.
func (a Admin) Topics(ctx context.Context) (map[string]int, error) {
	r, err := a.c.Metadata(ctx, &segment.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	all := map[string]int{}
	for _, t := range r.Topics {
		all[t.Name] = len(t.Partitions)
	}
	return all, nil
}

// AddPartitions grows a topic.
func (a Admin) AddPartitions(ctx context.Context, name string, total int) error {
	r, err := a.c.CreatePartitions(ctx, &segment.CreatePartitionsRequest{
		Topics: []segment.TopicPartitionsConfig{{Name: name, Count: int32(total)}},
	})
	if err == nil {
		err = r.Errors[name]
	}
	return err
}

// Configs describes a topic.
func (a Admin) Configs(ctx context.Context, name string) (map[string]string, error) {
	r, err := a.c.DescribeConfigs(ctx, &segment.DescribeConfigsRequest{
		Resources: []segment.DescribeConfigRequestResource{{ResourceType: segment.ResourceTypeTopic, ResourceName: name}},
	})
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, e := range r.Resources[0].ConfigEntries {
		all[e.ConfigName] = e.ConfigValue
	}
	return all, r.Resources[0].Error
}

// SetConfig changes one configuration.
func (a Admin) SetConfig(ctx context.Context, name, key, value string) error {
	r, err := a.c.IncrementalAlterConfigs(ctx, &segment.IncrementalAlterConfigsRequest{
		Resources: []segment.IncrementalAlterConfigsRequestResource{{
			ResourceType: segment.ResourceTypeTopic, ResourceName: name,
			Configs: []segment.IncrementalAlterConfigsRequestConfig{{Name: key, Value: value, ConfigOperation: segment.ConfigOperationSet}},
		}},
	})
	if err == nil {
		err = r.Resources[0].Error
	}
	return err
}

// DeleteRecords fails.
func (a Admin) DeleteRecords(context.Context, string, int64) error {
	return errors.New("kafka-go's Client cannot delete records")
}

// Offsets lists the offsets of partition 0.
func (a Admin) Offsets(ctx context.Context, name string) (start, end int64, err error) {
	r, err := a.c.ListOffsets(ctx, &segment.ListOffsetsRequest{
		Topics: map[string][]segment.OffsetRequest{name: {segment.FirstOffsetOf(0), segment.LastOffsetOf(0)}},
	})
	if err != nil {
		return 0, 0, err
	}
	p := r.Topics[name][0]
	return p.FirstOffset, p.LastOffset, p.Error
}

// DeleteTopic deletes a topic.
func (a Admin) DeleteTopic(ctx context.Context, name string) error {
	r, err := a.c.DeleteTopics(ctx, &segment.DeleteTopicsRequest{Topics: []string{name}})
	if err == nil {
		err = r.Errors[name]
	}
	return err
}

// Groups lists groups.
func (a Admin) Groups(ctx context.Context) ([]string, error) {
	r, err := a.c.ListGroups(ctx, &segment.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range r.Groups {
		names = append(names, g.GroupID)
	}
	return names, r.Error
}

// Group describes one.
func (a Admin) Group(ctx context.Context, name string) (state string, members int, err error) {
	r, err := a.c.DescribeGroups(ctx, &segment.DescribeGroupsRequest{GroupIDs: []string{name}})
	if err != nil {
		return "", 0, err
	}
	g := r.Groups[0]
	return g.GroupState, len(g.Members), g.Error
}

// GroupOffsets returns what a group has committed.
func (a Admin) GroupOffsets(ctx context.Context, group, topic string) (map[int32]int64, error) {
	r, err := a.c.OffsetFetch(ctx, &segment.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {0}}})
	if err != nil {
		return nil, err
	}
	all := map[int32]int64{}
	for _, p := range r.Topics[topic] {
		all[int32(p.Partition)] = p.CommittedOffset
	}
	return all, r.Error
}

// DeleteGroup deletes a group.
func (a Admin) DeleteGroup(ctx context.Context, name string) error {
	r, err := a.c.DeleteGroups(ctx, &segment.DeleteGroupsRequest{GroupIDs: []string{name}})
	if err == nil {
		err = r.Errors[name]
	}
	return err
}

// Close closes connections.
func (a Admin) Close() error {
	a.transport.CloseIdleConnections()
	return nil
}
