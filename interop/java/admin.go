package java

import (
	"context"
	"strconv"
	"strings"

	"github.com/mainstemdev/mainstem/interop/kafka"
)

// Admin opens an Admin.
func (l library) Admin(ctx context.Context) (kafka.Admin, error) {
	c, err := l.open(ctx, map[string]any{"kind": "admin", "config": l.config(config{"default.api.timeout.ms": 20_000})})
	return admin{c}, err
}

// admin calls operations of Administration.java.
type admin struct{ c *client }

// args are those of an operation.
type args map[string]any

func (a admin) do(ctx context.Context, op string, args args) error {
	return a.c.call(ctx, op, args, nil)
}

func (a admin) CreateTopic(ctx context.Context, name string, partitions int, configs map[string]string) error {
	return a.do(ctx, "createTopics", args{"topic": name, "partitions": partitions, "configs": configs})
}

// Topics lists topics and describes each: some are deleted by others between the two.
func (a admin) Topics(ctx context.Context) (map[string]int, error) {
	var names []string
	if err := a.c.call(ctx, "listTopics", nil, &names); err != nil {
		return nil, err
	}
	all := map[string]int{}
	for _, name := range names {
		var d struct {
			Partitions []struct{} `json:"partitions"`
		}
		err := a.c.call(ctx, "describeTopics", args{"topic": name}, &d)
		if err != nil && !strings.Contains(err.Error(), "UnknownTopicOrPartition") {
			return nil, err
		}
		all[name] = len(d.Partitions)
	}
	return all, nil
}

func (a admin) AddPartitions(ctx context.Context, name string, total int) error {
	return a.do(ctx, "createPartitions", args{"topic": name, "total": total})
}

func (a admin) Configs(ctx context.Context, name string) (all map[string]string, err error) {
	return all, a.c.call(ctx, "describeConfigs", args{"type": "TOPIC", "name": name}, &all)
}

func (a admin) SetConfig(ctx context.Context, name, key, value string) error {
	return a.do(ctx, "incrementalAlterConfigs", args{"type": "TOPIC", "name": name, "op": "SET", "key": key, "value": value})
}

func (a admin) DeleteRecords(ctx context.Context, name string, before int64) error {
	return a.do(ctx, "deleteRecords", args{"topic": name, "before": before})
}

func (a admin) Offsets(ctx context.Context, name string) (start, end int64, err error) {
	list := func(at string) int64 {
		var found struct {
			Offset int64 `json:"offset"`
		}
		if err == nil {
			err = a.c.call(ctx, "listOffsets", args{"topic": name, "at": at}, &found)
		}
		return found.Offset
	}
	start, end = list("earliest"), list("latest")
	return start, end, err
}

func (a admin) DeleteTopic(ctx context.Context, name string) error {
	return a.do(ctx, "deleteTopics", args{"topic": name})
}

func (a admin) Groups(ctx context.Context) (names []string, err error) {
	return names, a.c.call(ctx, "listConsumerGroups", nil, &names)
}

func (a admin) Group(ctx context.Context, name string) (state string, members int, err error) {
	var d struct {
		State   string     `json:"state"`
		Members []struct{} `json:"members"`
	}
	err = a.c.call(ctx, "describeConsumerGroups", args{"group": name}, &d)
	return d.State, len(d.Members), err
}

func (a admin) GroupOffsets(ctx context.Context, group, topic string) (map[int32]int64, error) {
	var found map[string]int64 // by topic-partition
	if err := a.c.call(ctx, "listConsumerGroupOffsets", args{"group": group}, &found); err != nil {
		return nil, err
	}
	all := map[int32]int64{}
	for name, offset := range found {
		i := strings.LastIndexByte(name, '-')
		if name[:i] != topic {
			continue
		}
		p, err := strconv.ParseInt(name[i+1:], 10, 32)
		if err != nil {
			return nil, err
		}
		all[int32(p)] = offset
	}
	return all, nil
}

func (a admin) DeleteGroup(ctx context.Context, name string) error {
	return a.do(ctx, "deleteConsumerGroups", args{"group": name})
}

func (a admin) Close() error { return a.c.close() }
