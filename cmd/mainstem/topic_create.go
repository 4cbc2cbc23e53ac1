package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/topic"
)

func (m *Main) topicCreate() *cobra.Command {
	var partitions int32
	var config []string
	cmd := &cobra.Command{
		Use:   "create TOPIC",
		Short: "Create a topic",
		Long: `Create a topic. One that exists already is a conflict (exit status 4).

--config takes Kafka's topic configurations: retention.ms, retention.bytes,
cleanup.policy, max.message.bytes, message.timestamp.type and others. A name that is
none of them is an error that lists them all.`,
		Example: `  mainstem topic create orders --partitions 12
  mainstem topic create prices --config cleanup.policy=compact
  mainstem topic create clicks --config retention.ms=86400000 --config retention.bytes=1073741824`,
		Args: args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			given, err := pairs("config", config)
			if err == nil && partitions < 1 {
				err = fmt.Errorf("--partitions is %d: want at least 1", partitions)
			}
			if err != nil {
				return usageError{cmd, err}
			}
			return m.withTopics(cmd, writing, func(ctx context.Context, c *topic.Catalog) error {
				t, err := c.Create(ctx, a[0], topic.Spec{Partitions: partitions, Config: given})
				if err != nil {
					return err
				}
				return m.printTopic(t)
			})
		},
	}
	cmd.Flags().Int32Var(&partitions, "partitions", 1, "`number` of partitions")
	cmd.Flags().StringArrayVar(&config, "config", nil, "configuration `NAME=VALUE`; may be repeated")
	return cmd
}

// printTopic writes a topic's name, partitions and what was configured.
func (m *Main) printTopic(t *topic.Topic) error {
	if m.flags.json {
		return m.object(topicFields(t.Name(), t.ID(), int(t.Partitions()), t.Config()).time("created", t.Created()))
	}
	columns := []string{t.Name(), number(t.Partitions()) + " partitions"}
	for _, name := range sortedNames(t.Config()) {
		columns = append(columns, name+"="+t.Config()[name])
	}
	return m.line(columns...)
}

func topicFields(name string, id topic.ID, partitions int, config topic.Config) *fields {
	f := new(fields).add("topic", name).add("id", id.String()).add("partitions", partitions)
	if len(config) > 0 {
		f.add("config", config)
	}
	return f
}
