package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/topic"
)

func (m *Main) topicList() *cobra.Command {
	var k kafkaFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List topics by name",
		Long:  "List topics by name." + kafkaHelp,
		Example: `  mainstem topic list --json
  mainstem topic list --bootstrap 127.0.0.1:9092`,
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if elsewhere, err := k.named(cmd); err != nil {
				return err
			} else if elsewhere {
				return m.withKafka(cmd, &k, nil, m.kafkaList)
			}
			return m.withTopics(cmd, reading, func(ctx context.Context, c *topic.Catalog) error {
				for t, err := range c.All(ctx) {
					if err == nil {
						err = m.printTopic(t)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	k.add(cmd)
	return cmd
}
