package kafkacmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/wire/kafka"
)

// resetFlags are the flags of kafka group reset.
type resetFlags struct {
	earliest, latest bool
	at               string
	by, offset       int64
	topics           []string
	all, execute     bool
}

func (m commands) newGroupReset() *cobra.Command {
	var o resetFlags
	cmd := &cobra.Command{
		Use:   "reset GROUP",
		Short: "Let a group go on at other offsets",
		Long: `Let a consumer group go on at other offsets, as Kafka's kafka-consumer-groups.sh
--reset-offsets does. Without --execute it only shows what would change: topic,
partition, old and new offset. A group that has members is a conflict (exit status 4):
stop its consumers first.

An offset out of range becomes the nearest that there is, and is marked. A time
without a record at or after it is the end. The group need not exist.`,
		Example: `  mainstem kafka group reset billing --topic orders --to-earliest
  mainstem kafka group reset billing --topic orders:0,3 --to-offset 1200 --execute
  mainstem kafka group reset billing --all-topics --by -100 --execute
  mainstem kafka group reset billing --all-topics --to-time 2h`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			to, err := o.target(cmd)
			var scope kafka.ResetScope
			if err == nil {
				scope, err = o.scope()
			}
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.withGroups(cmd, func(ctx context.Context, groups *kafka.Groups) error {
				plan, err := groups.PlanReset(ctx, a[0], scope, to)
				if err == nil && o.execute {
					err = plan.Commit(ctx)
				}
				if err != nil {
					return err
				}
				return m.printPlan(plan, !o.execute)
			})
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.topics, "topic", nil, "`TOPIC` or TOPIC:PARTITION,... to reset; may be repeated")
	f.BoolVar(&o.all, "all-topics", false, "reset every partition in which the group has an offset")
	f.BoolVar(&o.earliest, "to-earliest", false, "to the first offset that may be read")
	f.BoolVar(&o.latest, "to-latest", false, "to the end")
	f.StringVar(&o.at, "to-time", "", "to the first record of this `time` or duration ago, or later")
	f.Int64Var(&o.by, "by", 0, "by this `number` of offsets from the one stored; back if negative")
	f.Int64Var(&o.offset, "to-offset", 0, "to this `offset`")
	f.BoolVar(&o.execute, "execute", false, "do it")
	cmd.MarkFlagsMutuallyExclusive("to-earliest", "to-latest", "to-time", "by", "to-offset")
	cmd.MarkFlagsOneRequired("to-earliest", "to-latest", "to-time", "by", "to-offset")
	cmd.MarkFlagsMutuallyExclusive("topic", "all-topics")
	cmd.MarkFlagsOneRequired("topic", "all-topics")
	return cmd
}

func (o *resetFlags) target(cmd *cobra.Command) (kafka.ResetTo, error) {
	switch given := cmd.Flags().Changed; {
	case o.earliest:
		return kafka.ResetToEarliest(), nil
	case o.latest:
		return kafka.ResetToLatest(), nil
	case given("by"):
		return kafka.ResetBy(o.by), nil
	case given("to-time"):
		at, err := cli.TimeOrAge("to-time", o.at)
		return kafka.ResetToTime(at), err
	case given("to-offset"):
		if o.offset < 0 {
			return kafka.ResetTo{}, fmt.Errorf("--to-offset is %d: want 0 or more", o.offset)
		}
		return kafka.ResetToOffset(o.offset), nil
	}
	return kafka.ResetTo{}, errors.New("give one of --to-earliest, --to-latest, --to-time, --by and --to-offset")
}

func (o *resetFlags) scope() (kafka.ResetScope, error) {
	scope := kafka.ResetScope{AllTopics: o.all, Topics: map[string][]int32{}}
	for _, s := range o.topics {
		name, list, some := strings.Cut(s, ":")
		if _, twice := scope.Topics[name]; twice {
			return scope, fmt.Errorf("--topic: %s is given twice", name)
		}
		scope.Topics[name] = nil
		for p := range strings.SplitSeq(list, ",") {
			n, err := strconv.ParseInt(p, 10, 32)
			if some && (err != nil || n < 0) || name == "" {
				return scope, fmt.Errorf("--topic is %q: want a topic, or one with partitions such as orders:0,3", s)
			}
			if some {
				scope.Topics[name] = append(scope.Topics[name], int32(n))
			}
		}
	}
	return scope, nil
}

func (m commands) printPlan(plan *kafka.ResetPlan, dryRun bool) error {
	var rows [][]string
	for _, o := range plan.Offsets {
		if m.Flags.JSON {
			f := new(cli.Fields).Text("group", plan.Group).Add("topic", o.Topic).Add("partition", o.Partition)
			if o.Old >= 0 {
				f.Add("old", o.Old)
			}
			f.Add("new", o.New)
			cli.Opt(f, "clamped", o.Clamped)
			cli.Opt(f, "dry_run", dryRun)
			if err := m.Object(f); err != nil {
				return err
			}
			continue
		}
		mark := ""
		if o.Clamped {
			mark = "nearest"
		}
		rows = append(rows, []string{o.Topic, cli.Number(o.Partition), orDash(o.Old), cli.Number(o.New), mark})
	}
	if m.Flags.JSON || len(rows) == 0 {
		return nil
	}
	if err := m.Columns([]string{"topic", "partition", "old", "new", ""}, rows); err != nil || !dryRun {
		return err
	}
	if err := m.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(m.Stderr, "nothing was changed: say --execute to do it")
	return err
}
