package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/topic"
)

func (m *Main) topicList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List topics by name",
		Long:    "List topics by name.",
		Example: `  mainstem topic list --json`,
		Args:    args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
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
}
