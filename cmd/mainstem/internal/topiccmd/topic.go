// Package topiccmd is the commands of mainstem topic, which work on topics.
//
//	mainstem topic create orders --partitions 12
//	mainstem topic consume orders --from start --follow
package topiccmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/topic"
)

// commands has a method for each command of the group, and what these share.
type commands struct{ *cli.Main }

// New returns mainstem topic.
func New(program *cli.Main) *cobra.Command {
	m := commands{program}
	c := &cobra.Command{
		Use:   "topic",
		Short: "Topics of Kafka record batches",
		Long: `Topics with partitions, offsets, timestamps, retention and compaction, as Kafka has
them. The commands work on a log. For a Kafka listener, that of mainstem serve too, use
kcat or the programs that Kafka brings.`,
		RunE: cli.Group,
	}
	c.AddCommand(m.newCreate(), m.newList(), m.newDescribe(), m.newAlter(), m.newPartitions(), m.newOffsets(),
		m.newProduce(), m.newConsume(), m.newDeleteRecords(), m.newDelete())
	return c
}

// withTopics opens the topics of the log of the command line. Retention and
// compaction are left to the server or program that owns the log.
func (m commands) withTopics(cmd *cobra.Command, a cli.Access, do func(context.Context, *topic.Catalog) error) error {
	return m.WithLog(cmd, a, func(ctx context.Context, log mainstem.Log) error {
		c, err := topic.Open(log, &topic.Options{Every: -1, Logger: m.Logger()})
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

func (m commands) newCreate() *cobra.Command {
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
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			given, err := cli.Pairs("config", config)
			if err == nil && partitions < 1 {
				err = fmt.Errorf("--partitions is %d: want at least 1", partitions)
			}
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.withTopics(cmd, cli.Writing, func(ctx context.Context, c *topic.Catalog) error {
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
func (m commands) printTopic(t *topic.Topic) error {
	if m.Flags.JSON {
		return m.Object(topicFields(t.Name(), t.ID(), int(t.Partitions()), t.Config()).Time("created", t.Created()))
	}
	columns := []string{t.Name(), cli.Number(t.Partitions()) + " partitions"}
	for _, name := range cli.SortedNames(t.Config()) {
		columns = append(columns, name+"="+t.Config()[name])
	}
	return m.Line(columns...)
}

func topicFields(name string, id topic.ID, partitions int, config topic.Config) *cli.Fields {
	f := new(cli.Fields).Add("topic", name).Add("id", id.String()).Add("partitions", partitions)
	if len(config) > 0 {
		f.Add("config", config)
	}
	return f
}

func (m commands) newList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List topics by name",
		Long:    "List topics by name.",
		Example: `  mainstem topic list --json`,
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.withTopics(cmd, cli.Reading, func(ctx context.Context, c *topic.Catalog) error {
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

func (m commands) newDelete() *cobra.Command {
	var consent cli.Consent
	cmd := &cobra.Command{
		Use:   "delete TOPIC",
		Short: "Delete a topic and all its records",
		Long: `Delete a topic with its configuration, all its records and the offsets of consumers.
Nothing brings them back but a backup.

` + cli.ConsentHelp,
		Example: `  mainstem topic delete orders --dry-run
  mainstem topic delete orders --yes`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withTopics(cmd, cli.Reading, func(ctx context.Context, c *topic.Catalog) error {
				return m.delete(ctx, cmd, c, a[0], &consent)
			})
		},
	}
	consent.Add(cmd)
	return cmd
}

func (m commands) delete(ctx context.Context, cmd *cobra.Command, c *topic.Catalog, name string, consent *cli.Consent) error {
	d, err := c.Describe(ctx, name)
	if err != nil {
		return err
	}
	offsets, size := int64(0), int64(0)
	for _, p := range d.Partitions {
		offsets += p.End - p.Start
		size += p.Bytes
	}
	fields := new(cli.Fields).Add("topic", name).Add("partitions", len(d.Partitions)).Add("offsets", offsets).Add("bytes", size)
	text := fmt.Sprintf("delete %s: %s in %s, %s", name, cli.Plural(offsets, "offset"), cli.Plural(len(d.Partitions), "partition"), cli.Plural(size, "byte"))
	if agreed, _, err := m.Confirm(cmd, consent, cli.Loss{Text: text, Fields: fields}); !agreed {
		return err
	}
	if err := c.Delete(ctx, name); err != nil {
		return err
	}
	return m.Deleted(fields)
}
