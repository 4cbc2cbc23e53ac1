package franz

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mainstemdev/mainstem/interop/kafka"
)

// Admin is kadm.
type Admin struct{ *kadm.Client }

// Admin opens one.
func (c client) Admin(context.Context) (kafka.Admin, error) {
	opts, err := c.options(kgo.MetadataMinAge(10 * time.Millisecond))
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	return Admin{kadm.NewClient(cl)}, nil
}

// CreateTopic creates a topic.
func (a Admin) CreateTopic(ctx context.Context, name string, partitions int, configs map[string]string) error {
	values := map[string]*string{}
	for k, v := range configs {
		values[k] = &v
	}
	_, err := a.Client.CreateTopic(ctx, int32(partitions), 1, values, name)
	return err
}

// Topics lists topics.
func (a Admin) Topics(ctx context.Context) (map[string]int, error) {
	details, err := a.ListTopics(ctx)
	all := map[string]int{}
	for name, d := range details {
		all[name] = len(d.Partitions)
	}
	return all, err
}

// AddPartitions grows a topic.
func (a Admin) AddPartitions(ctx context.Context, name string, total int) error {
	r, err := a.UpdatePartitions(ctx, total, name)
	if err == nil {
		err = r.Error()
	}
	return err
}

// Configs describes a topic.
func (a Admin) Configs(ctx context.Context, name string) (map[string]string, error) {
	all := map[string]string{}
	configs, err := a.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return nil, err
	}
	r, err := configs.On(name, nil)
	for _, c := range r.Configs {
		all[c.Key] = c.MaybeValue()
	}
	if err == nil {
		err = r.Err
	}
	return all, err
}

// SetConfig changes one configuration.
func (a Admin) SetConfig(ctx context.Context, name, key, value string) error {
	r, err := a.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, name)
	for _, c := range r {
		if err == nil {
			err = c.Err
		}
	}
	return err
}

// DeleteRecords moves the start of partition 0.
func (a Admin) DeleteRecords(ctx context.Context, name string, before int64) error {
	var offsets kadm.Offsets
	offsets.AddOffset(name, 0, before, -1)
	r, err := a.Client.DeleteRecords(ctx, offsets)
	if err == nil {
		err = r.Error()
	}
	return err
}

// Offsets lists the offsets of partition 0.
func (a Admin) Offsets(ctx context.Context, name string) (start, end int64, err error) {
	starts, err := a.ListStartOffsets(ctx, name)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return 0, 0, err
	}
	ends, err := a.ListEndOffsets(ctx, name)
	if err == nil {
		err = ends.Error()
	}
	s, _ := starts.Lookup(name, 0)
	e, _ := ends.Lookup(name, 0)
	return s.Offset, e.Offset, err
}

// DeleteTopic deletes a topic.
func (a Admin) DeleteTopic(ctx context.Context, name string) error {
	_, err := a.Client.DeleteTopic(ctx, name)
	return err
}

// Groups lists groups.
func (a Admin) Groups(ctx context.Context) ([]string, error) {
	groups, err := a.ListGroups(ctx)
	return groups.Groups(), err
}

// Group describes one.
func (a Admin) Group(ctx context.Context, name string) (state string, members int, err error) {
	groups, err := a.DescribeGroups(ctx, name)
	if err == nil {
		err = groups[name].Err
	}
	return groups[name].State, len(groups[name].Members), err
}

// GroupOffsets returns what a group has committed.
func (a Admin) GroupOffsets(ctx context.Context, group, topic string) (map[int32]int64, error) {
	all := map[int32]int64{}
	offsets, err := a.FetchOffsets(ctx, group)
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic {
			all[o.Partition] = o.At
		}
	})
	return all, err
}

// DeleteGroup deletes a group.
func (a Admin) DeleteGroup(ctx context.Context, name string) error {
	_, err := a.Client.DeleteGroup(ctx, name)
	return err
}

// Close closes the client.
func (a Admin) Close() error {
	a.Client.Close()
	return nil
}
