package topiccmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/topic"
)

func (m commands) newPartitions() *cobra.Command {
	var total int32
	cmd := &cobra.Command{
		Use:   "partitions TOPIC",
		Short: "Show the partitions of a topic, or add some",
		Long: `Show the partitions of a topic: the first offset, the offset that the next record
gets, and the bytes held.

--set adds partitions until there are so many. There are never fewer: records would
be lost. Records of a key may then go to another partition than those before them.`,
		Example: `  mainstem topic partitions orders
  mainstem topic partitions orders --set 24`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			set := cmd.Flags().Changed("set")
			if set && total < 1 {
				return cli.WrongUsage(cmd, fmt.Errorf("--set is %d: want at least 1", total))
			}
			return m.withTopics(cmd, cli.Reading, func(ctx context.Context, c *topic.Catalog) error {
				if set {
					if err := grow(ctx, c, a[0], total); err != nil {
						return err
					}
				}
				d, err := c.Describe(ctx, a[0])
				if err != nil {
					return err
				}
				if m.Flags.JSON {
					return m.partitionsJSON(&d)
				}
				return m.partitionsText(&d)
			})
		},
	}
	cmd.Flags().Int32Var(&total, "set", 0, "add partitions up to this `number` of them")
	return cmd
}

// grow gives a topic more partitions. As many as there are is no mistake: the command can be
// repeated.
func grow(ctx context.Context, c *topic.Catalog, name string, total int32) error {
	t, err := c.Topic(ctx, name)
	if err != nil || t.Partitions() == total {
		return err
	}
	return c.AddPartitions(ctx, name, total)
}

func (m commands) newOffsets() *cobra.Command {
	var partitions []int32
	var at string
	cmd := &cobra.Command{
		Use:   "offsets TOPIC",
		Short: "Show the offsets of each partition of a topic",
		Long: `Show of each partition of a topic the earliest offset, the latest, which the next
record gets, and with --at the offset of the first record whose timestamp is not
before that time: where there is none, the latest. --at is a time such as
2026-01-31T08:00:00Z, or a duration: 2h is two hours ago.`,
		Example: `  mainstem topic offsets orders
  mainstem topic offsets orders --partition 0,3 --at 2h --json`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			var when time.Time
			var err error
			if at != "" {
				when, err = cli.TimeOrAge("at", at)
			}
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.withTopics(cmd, cli.Reading, func(ctx context.Context, c *topic.Catalog) error {
				t, err := c.Topic(ctx, a[0])
				if err != nil {
					return err
				}
				return m.printOffsets(ctx, t, partitions, when)
			})
		},
	}
	f := cmd.Flags()
	f.Int32SliceVar(&partitions, "partition", nil, "only these `partitions`, separated by commas")
	f.StringVar(&at, "at", "", "also the offset of this `time` or duration ago")
	return cmd
}

// chosen returns the partitions given, all of the topic if none is.
func chosen(t *topic.Topic, given []int32) []int32 {
	if len(given) > 0 {
		return given
	}
	all := make([]int32, t.Partitions())
	for n := range all {
		all[n] = int32(n)
	}
	return all
}

func (m commands) printOffsets(ctx context.Context, t *topic.Topic, partitions []int32, at time.Time) error {
	var rows [][]string
	for _, n := range chosen(t, partitions) {
		start, end, err := bounds(ctx, t, n)
		if err != nil {
			return err
		}
		f := new(cli.Fields).Add("topic", t.Name()).Add("partition", n).Add("earliest", start).Add("latest", end)
		row := []string{cli.Number(n), cli.Number(start), cli.Number(end)}
		if !at.IsZero() {
			offset, stamp, err := offsetAt(ctx, t, n, end, at)
			if err != nil {
				return err
			}
			f.Add("offset", offset).Time("time", stamp)
			row = append(row, cli.Number(offset), cli.TimeText(stamp))
		}
		if m.Flags.JSON {
			if err := m.Object(f); err != nil {
				return err
			}
		}
		rows = append(rows, row)
	}
	if m.Flags.JSON {
		return nil
	}
	head := []string{"partition", "earliest", "latest", "offset", "time"}
	if at.IsZero() {
		head = head[:3]
	}
	return m.Columns(head, rows)
}

func bounds(ctx context.Context, t *topic.Topic, partition int32) (start, end int64, err error) {
	if start, err = t.Start(ctx, partition); err == nil {
		end, err = t.End(ctx, partition)
	}
	return start, end, err
}

// offsetAt returns the offset of the first record at or after a time and its timestamp; end if there
// is none.
func offsetAt(ctx context.Context, t *topic.Topic, partition int32, end int64, at time.Time) (int64, time.Time, error) {
	found, ok, err := t.OffsetForTime(ctx, partition, at)
	if err != nil || !ok {
		return end, time.Time{}, err
	}
	return found.Offset, found.Time, nil
}
