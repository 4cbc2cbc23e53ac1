package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/topic"
)

func (m *Main) topicDelete() *cobra.Command {
	return &cobra.Command{
		Use:     "delete TOPIC",
		Short:   "Delete a topic and all its records",
		Long:    "Delete a topic and all its records.",
		Example: "  mainstem topic delete orders",
		Args:    args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withTopics(cmd, reading, func(ctx context.Context, c *topic.Catalog) error {
				if err := c.Delete(ctx, a[0]); err != nil {
					return err
				}
				if m.flags.json {
					return m.object(new(fields).add("topic", a[0]).add("deleted", true))
				}
				return nil
			})
		},
	}
}
