package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
)

// kafkaTopic is a topic of a cluster.
type kafkaTopic struct {
	name    string
	id      topic.ID
	leaders map[int32]int32 // by partition
}

// partitions returns the numbers of the topic's partitions, in order.
func (t *kafkaTopic) partitions() []int32 { return slices.Sorted(maps.Keys(t.leaders)) }

// has returns NotFound unless the topic has a partition.
func (t *kafkaTopic) has(partition int32) error {
	if _, ok := t.leaders[partition]; ok {
		return nil
	}
	return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "topic " + t.name, Err: fmt.Errorf("no partition %d: the topic has 0 to %d", partition, len(t.leaders)-1)}
}

// findTopic asks for one topic: NotFound if there is none. It creates nothing.
func findTopic(ctx context.Context, cl *kgo.Client, name string) (*kafkaTopic, error) {
	req := kmsg.NewPtrMetadataRequest()
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = &name
	req.Topics = append(req.Topics, one)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, kafkaError(ctx, err)
	}
	if len(resp.Topics) != 1 {
		return nil, kafkaError(ctx, fmt.Errorf("the cluster described %d topics instead of %s", len(resp.Topics), name))
	}
	if err := codeError("topic "+name, resp.Topics[0].ErrorCode, nil); err != nil {
		return nil, err
	}
	return topicOf(&resp.Topics[0]), nil
}

func topicOf(m *kmsg.MetadataResponseTopic) *kafkaTopic {
	t := &kafkaTopic{id: m.TopicID, leaders: make(map[int32]int32, len(m.Partitions))}
	if m.Topic != nil {
		t.name = *m.Topic
	}
	for _, p := range m.Partitions {
		t.leaders[p.Partition] = p.Leader
	}
	return t
}

// codeError makes an error of the code in an answer, nil for 0.
func codeError(op string, code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err == nil {
		return nil
	}
	if message != nil && *message != "" {
		err = fmt.Errorf("%w (%s)", err, *message)
	}
	out := kafkaError(context.Background(), err)
	if e, ok := out.(*mainstem.Error); ok {
		e.Op = op
	}
	return out
}

// kafkaList is topic list for a cluster.
func (m *Main) kafkaList(ctx context.Context, cl *kgo.Client) error {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	slices.SortFunc(resp.Topics, func(a, b kmsg.MetadataResponseTopic) int { return strings.Compare(*a.Topic, *b.Topic) })
	for i := range resp.Topics {
		t := topicOf(&resp.Topics[i])
		if err := codeError("topic "+t.name, resp.Topics[i].ErrorCode, nil); err != nil {
			return err
		}
		if err := m.printKafkaTopic(t, nil); err != nil {
			return err
		}
	}
	return nil
}

func (m *Main) printKafkaTopic(t *kafkaTopic, config topic.Config) error {
	if m.flags.json {
		return m.object(topicFields(t.name, t.id, len(t.leaders), config))
	}
	columns := []string{t.name, number(len(t.leaders)) + " partitions"}
	for _, name := range sortedNames(config) {
		columns = append(columns, name+"="+config[name])
	}
	return m.line(columns...)
}

// kafkaCreate is topic create for a cluster.
func (m *Main) kafkaCreate(ctx context.Context, cl *kgo.Client, name string, partitions int32, replicas int16, config topic.Config) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = name, partitions, replicas
	for _, key := range sortedNames(config) {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, kmsg.StringPtr(config[key])
		one.Configs = append(one.Configs, c)
	}
	req.Topics = append(req.Topics, one)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("the cluster answered for %d topics instead of %s", len(resp.Topics), name)
	}
	if err := codeError("create topic "+name, resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage); err != nil {
		return err
	}
	t := &kafkaTopic{name: name, id: resp.Topics[0].TopicID, leaders: map[int32]int32{}}
	for i := range partitions {
		t.leaders[i] = 0
	}
	return m.printKafkaTopic(t, config)
}

// kafkaDelete is topic delete for a cluster.
func (m *Main) kafkaDelete(ctx context.Context, cl *kgo.Client, name string) error {
	t, err := findTopic(ctx, cl, name) // newer clusters want the ID, older ones the name
	if err != nil {
		return err
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	one := kmsg.NewDeleteTopicsRequestTopic()
	one.Topic = &name
	req.Topics, req.TopicNames = append(req.Topics, one), []string{t.name}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, one := range resp.Topics {
		if err := codeError("delete topic "+name, one.ErrorCode, one.ErrorMessage); err != nil {
			return err
		}
	}
	if m.flags.json {
		return m.object(new(fields).add("topic", name).add("deleted", true))
	}
	return nil
}

// kafkaDescribe is topic describe for a cluster.
func (m *Main) kafkaDescribe(ctx context.Context, cl *kgo.Client, name string, all bool) error {
	t, err := findTopic(ctx, cl, name)
	if err != nil {
		return err
	}
	config, err := topicConfig(ctx, cl, name, all)
	if err != nil {
		return err
	}
	starts, err := listOffsets(ctx, cl, t, t.partitions(), atStart, false)
	if err != nil {
		return err
	}
	ends, err := listOffsets(ctx, cl, t, t.partitions(), atEnd, false)
	if err != nil {
		return err
	}
	if m.flags.json {
		if err := m.printKafkaTopic(t, config); err != nil {
			return err
		}
		for _, p := range t.partitions() {
			if err := m.object(new(fields).add("topic", name).add("partition", p).add("start", starts[p]).add("end", ends[p])); err != nil {
				return err
			}
		}
		return nil
	}
	lines := [][2]string{{"topic", name}, {"id", t.id.String()}}
	for _, key := range sortedNames(config) {
		lines = append(lines, [2]string{key, config[key]})
	}
	if err := m.table(lines); err != nil {
		return err
	}
	w := tabwriter.NewWriter(m.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "partition\tstart\tend\t\n")
	for _, p := range t.partitions() {
		fmt.Fprintf(w, "%d\t%d\t%d\t\n", p, starts[p], ends[p])
	}
	return w.Flush()
}

// topicConfig returns what was configured for a topic; with all also defaults.
func topicConfig(ctx context.Context, cl *kgo.Client, name string, all bool) (topic.Config, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType, one.ResourceName = kmsg.ConfigResourceTypeTopic, name
	req.Resources = append(req.Resources, one)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	config := topic.Config{}
	for _, r := range resp.Resources {
		if err := codeError("configuration of "+name, r.ErrorCode, r.ErrorMessage); err != nil {
			return nil, err
		}
		for _, c := range r.Configs {
			if c.Value != nil && (all || c.Source == kmsg.ConfigSourceDynamicTopicConfig) {
				config[c.Name] = *c.Value
			}
		}
	}
	return config, nil
}

// Timestamps with a meaning of their own in Kafka's ListOffsets.
const (
	atEnd   = -1
	atStart = -2
)

// listOffsets asks where partitions have a timestamp, in milliseconds; -1 where no
// record is that late.
func listOffsets(ctx context.Context, cl *kgo.Client, t *kafkaTopic, partitions []int32, timestamp int64, committed bool) (map[int32]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	if committed {
		req.IsolationLevel = 1
	}
	one := kmsg.NewListOffsetsRequestTopic()
	one.Topic = t.name
	for _, num := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = num, timestamp
		one.Partitions = append(one.Partitions, p)
	}
	req.Topics = append(req.Topics, one)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, kafkaError(ctx, err)
	}
	out := make(map[int32]int64, len(partitions))
	for _, rt := range resp.Topics {
		for _, p := range rt.Partitions {
			if err := codeError(fmt.Sprintf("offsets of %s/%d", t.name, p.Partition), p.ErrorCode, nil); err != nil {
				return nil, err
			}
			out[p.Partition] = p.Offset
		}
	}
	return out, nil
}
