package topiccmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/topic"
)

func (m commands) newDescribe() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "describe TOPIC",
		Short: "Show a topic's configuration and partitions",
		Long: `Show a topic's configuration, and of each partition the first offset, the offset
that the next record gets, and the bytes held.`,
		Example: `  mainstem topic describe orders
  mainstem topic describe orders --all --json`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withTopics(cmd, cli.Reading, func(ctx context.Context, c *topic.Catalog) error {
				d, err := c.Describe(ctx, a[0])
				if err != nil {
					return err
				}
				if all {
					d.Config = withDefaults(d.Config)
				}
				if m.Flags.JSON {
					return m.describeJSON(&d)
				}
				return m.describeText(&d)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also configurations that have their default")
	return cmd
}

func withDefaults(c topic.Config) topic.Config {
	all := make(topic.Config)
	for _, k := range topic.ConfigKeys() {
		if _, set := c[k.Name]; set || !k.Internal {
			all[k.Name] = c.Get(k.Name)
		}
	}
	return all
}

// describeJSON writes the topic as one line and each partition as another.
func (m commands) describeJSON(d *topic.Description) error {
	if err := m.Object(topicFields(d.Name, d.ID, len(d.Partitions), d.Config)); err != nil {
		return err
	}
	return m.partitionsJSON(d)
}

func (m commands) partitionsJSON(d *topic.Description) error {
	for i, p := range d.Partitions {
		f := new(cli.Fields).Add("topic", d.Name).Add("partition", i).Add("start", p.Start).Add("end", p.End).Add("bytes", p.Bytes)
		if err := m.Object(f); err != nil {
			return err
		}
	}
	return nil
}

func (m commands) describeText(d *topic.Description) error {
	lines := [][2]string{{"topic", d.Name}, {"id", d.ID.String()}}
	for _, name := range cli.SortedNames(d.Config) {
		lines = append(lines, [2]string{name, d.Config[name]})
	}
	if err := m.Table(lines); err != nil {
		return err
	}
	return m.partitionsText(d)
}

func (m commands) partitionsText(d *topic.Description) error {
	rows := make([][]string, len(d.Partitions))
	for i, p := range d.Partitions {
		rows[i] = []string{cli.Number(i), cli.Number(p.Start), cli.Number(p.End), cli.Number(p.Bytes)}
	}
	return m.Columns([]string{"partition", "start", "end", "bytes"}, rows)
}
