package kafka

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/group"
)

// The configurations of groups are resources of type GROUP (32). They are served as by Kafka
// 4.1: a group need not exist to be described or altered, an empty name is INVALID_REQUEST,
// and a value out of range or an unknown name is INVALID_CONFIG. Only the configurations of
// consumer groups (KIP-848) are known. Those of share groups (KIP-932) and streams groups
// (KIP-1071) are unknown, because there are no such groups.

// groupSetting is one configuration of groups.
type groupSetting struct {
	name  string
	doc   string
	field func(*group.Config) *time.Duration
	own   func(*Options) time.Duration // the server's value, for groups that have none of their own
	def   time.Duration                // the default of the server's value
}

// groupSettings are in the order of their names.
var groupSettings = []groupSetting{
	{
		"consumer.heartbeat.interval.ms", "milliseconds between two reports of a member of the consumer group",
		func(c *group.Config) *time.Duration { return &c.Heartbeat },
		func(o *Options) time.Duration { return o.GroupHeartbeat }, DefaultGroupHeartbeat,
	},
	{
		"consumer.session.timeout.ms", "milliseconds of silence after which a member of the consumer group is removed",
		func(c *group.Config) *time.Duration { return &c.Session },
		func(o *Options) time.Duration { return o.GroupSession }, DefaultGroupSession,
	},
}

// groupTypes are the types of the configurations of groups.
func groupTypes() map[string]kmsg.ConfigType {
	kinds := map[string]kmsg.ConfigType{}
	for _, s := range groupSettings {
		kinds[s.name] = kmsg.ConfigTypeInt
	}
	return kinds
}

// groupEntries returns the configurations of a group in the order of their names.
func (s *Server) groupEntries(ctx context.Context, name string) ([]configEntry, error) {
	if name == "" {
		return nil, refuse(kerr.InvalidRequest, "the name of the group is empty")
	}
	cfg, err := s.groups.Config(ctx, name)
	if err != nil {
		return nil, err
	}
	var out []configEntry
	for _, g := range groupSettings {
		e := static(g.name, millis(g.own(&s.o)), millis(g.def), kmsg.ConfigTypeInt, g.doc)
		e.synonym, e.readOnly = "group."+g.name, false
		if own := *g.field(&cfg); own != 0 {
			e.value, e.source = millis(own), kmsg.ConfigSourceGroupConfig
		}
		out = append(out, e)
	}
	return out, nil
}

// alterGroup applies edit to the configurations that a group has of its own, and stores the
// result if it is valid. With validateOnly it stores nothing.
func (s *Server) alterGroup(ctx context.Context, name string, validateOnly bool, edit func(topic.Config) error) error {
	if name == "" {
		return refuse(kerr.InvalidRequest, "the name of the group is empty: configurations for all groups are given when the server is started")
	}
	err := s.groups.Configure(ctx, name, validateOnly, func(now group.Config) (group.Config, error) {
		cfg := topic.Config{}
		for _, g := range groupSettings {
			if own := *g.field(&now); own != 0 {
				cfg[g.name] = millis(own)
			}
		}
		if err := edit(cfg); err != nil {
			return now, err
		}
		return groupConfig(cfg)
	})
	return configRefusal(err)
}

// groupConfig parses the configurations of a group. The coordinator checks their ranges.
func groupConfig(cfg topic.Config) (out group.Config, err error) {
	kinds := groupTypes()
	for name := range cfg {
		if _, ok := kinds[name]; !ok {
			return out, unknownGroupConfig(name)
		}
	}
	for _, g := range groupSettings {
		value, ok := cfg[g.name]
		if !ok {
			continue
		}
		ms, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
		if err != nil || ms < 1 {
			return out, refuse(kerr.InvalidConfig, "%s is %.64q: want a number of milliseconds from 1 on", g.name, value)
		}
		*g.field(&out) = time.Duration(ms) * time.Millisecond
	}
	return out, nil
}

func unknownGroupConfig(name string) error {
	return refuse(kerr.InvalidConfig, "unknown configuration %q of a group: want %s or %s", name, groupSettings[0].name, groupSettings[1].name)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
