package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
)

func (m *Main) topic() *cobra.Command {
	c := &cobra.Command{
		Use:   "topic",
		Short: "Topics of Kafka record batches",
		Long: `Topics with partitions, offsets, timestamps, retention and compaction, as Kafka has
them. The commands work on a log. For a Kafka listener, that of mainstem serve too, use
kcat or the programs that Kafka brings.`,
		RunE: group,
	}
	c.AddCommand(m.topicCreate(), m.topicList(), m.topicDescribe(), m.topicProduce(), m.topicConsume(), m.topicDelete())
	return c
}

// withTopics opens the topics of the log of the command line. Retention and
// compaction are left to the server or program that owns the log.
func (m *Main) withTopics(cmd *cobra.Command, a access, do func(context.Context, *topic.Catalog) error) error {
	return m.withLog(cmd, a, func(ctx context.Context, log mainstem.Log) error {
		c, err := topic.Open(log, &topic.Options{Every: -1, Logger: m.logger()})
		if err != nil {
			return err
		}
		err = do(ctx, c)
		if cerr := c.Close(); err == nil {
			err = cerr
		}
		return err
	})
}
