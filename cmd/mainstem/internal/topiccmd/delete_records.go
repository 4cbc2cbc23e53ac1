package topiccmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/topic"
)

func (m commands) newDeleteRecords() *cobra.Command {
	var to []string
	var before string
	var partitions []int32
	var consent cli.Consent
	cmd := &cobra.Command{
		Use:   "delete-records TOPIC",
		Short: "Delete the oldest records of partitions",
		Long: `Delete the oldest records of partitions of a topic, whose cleanup.policy must contain
delete. Partitions then begin at a later offset; offsets do not change.

--to names for a partition the first offset that stays: 3=1200, or 3=end for all that
are there. --before deletes up to the first record whose timestamp is not before a
time, such as 2026-01-31T08:00:00Z, or a duration ago, in every partition or those of
--partition.

` + cli.ConsentHelp,
		Example: `  mainstem topic delete-records orders --before 720h --dry-run
  mainstem topic delete-records orders --to 0=1200 --to 1=end --yes`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			targets, err := parseTargets(to)
			var when time.Time
			switch {
			case err != nil:
			case (before == "") == (len(to) == 0):
				err = errors.New("give either --to or --before")
			case before != "":
				when, err = cli.TimeOrAge("before", before)
			case len(partitions) > 0:
				err = errors.New("--partition goes with --before: --to names its partition")
			}
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.withTopics(cmd, cli.Reading, func(ctx context.Context, c *topic.Catalog) error {
				t, err := c.Topic(ctx, a[0])
				if err != nil {
					return err
				}
				if before != "" {
					targets, err = targetsBefore(ctx, t, chosen(t, partitions), when)
				}
				if err != nil {
					return err
				}
				return m.deleteRecords(cmd, ctx, t, targets, &consent)
			})
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&to, "to", nil, "first offset that stays, as `PARTITION=OFFSET`; may be repeated")
	f.StringVar(&before, "before", "", "delete what is older than this `time` or duration")
	f.Int32SliceVar(&partitions, "partition", nil, "with --before only these `partitions`, separated by commas")
	consent.Add(cmd)
	return cmd
}

// target is the offset at which a partition is to begin.
type target struct {
	partition  int32
	offset     int64 // or topic.ToEnd
	start, end int64 // of the partition
}

func parseTargets(given []string) ([]target, error) {
	pairs, err := cli.Pairs("to", given)
	var out []target
	for p, v := range pairs {
		n, perr := strconv.ParseInt(p, 10, 32)
		offset, oerr := strconv.ParseInt(v, 10, 64)
		if v == "end" {
			offset, oerr = topic.ToEnd, nil
		} else if offset < 0 {
			oerr = strconv.ErrRange
		}
		if perr != nil || oerr != nil || n < 0 {
			return nil, fmt.Errorf("--to %s=%s: want a partition and an offset, or end, such as 3=1200", p, v)
		}
		out = append(out, target{partition: int32(n), offset: offset})
	}
	slices.SortFunc(out, func(a, b target) int { return int(a.partition - b.partition) })
	return out, err
}

func targetsBefore(ctx context.Context, t *topic.Topic, partitions []int32, at time.Time) ([]target, error) {
	var out []target
	for _, n := range partitions {
		_, end, err := bounds(ctx, t, n)
		if err != nil {
			return nil, err
		}
		offset, _, err := offsetAt(ctx, t, n, end, at)
		if err != nil {
			return nil, err
		}
		out = append(out, target{partition: n, offset: offset})
	}
	return out, nil
}

func (m commands) deleteRecords(cmd *cobra.Command, ctx context.Context, t *topic.Topic, targets []target, consent *cli.Consent) error {
	lost, err := m.fill(ctx, t, targets)
	if err != nil {
		return err
	}
	if consent.DryRun && !m.Flags.JSON {
		if err := m.printTargets(targets); err != nil {
			return err
		}
	}
	agreed, _, err := m.Confirm(cmd, consent, cli.Loss{
		Text:   fmt.Sprintf("delete %s from %s of %s", cli.Plural(lost, "offset"), cli.Plural(len(targets), "partition"), t.Name()),
		Fields: targetFields(t.Name(), targets, lost),
	})
	if !agreed || err != nil {
		return err
	}
	if err := m.deleteTargets(ctx, t, targets); err != nil {
		return err
	}
	if m.Flags.JSON {
		return m.Object(targetFields(t.Name(), targets, lost))
	}
	return m.printTargets(targets)
}

// deleteTargets deletes the records of each partition in a commit of its own.
func (m commands) deleteTargets(ctx context.Context, t *topic.Topic, targets []target) (err error) {
	meter := m.StartMeter("deleting", 0)
	defer meter.Finish()
	for i := range targets {
		meter.Say(fmt.Sprintf("deleting records of partition %d of %d", i+1, len(targets)))
		if targets[i].offset, err = t.DeleteRecords(ctx, targets[i].partition, targets[i].offset); err != nil {
			return fmt.Errorf("partition %d: %w", targets[i].partition, err)
		}
	}
	return nil
}

// fill completes targets, refuses those that cannot be, and returns how many offsets are lost.
func (m commands) fill(ctx context.Context, t *topic.Topic, targets []target) (int64, error) {
	if err := t.Deletable(); err != nil {
		return 0, err
	}
	meter := m.StartMeter("reading offsets", 0)
	defer meter.Finish()
	lost := int64(0)
	for i := range targets {
		meter.Say(fmt.Sprintf("reading offsets of partition %d of %d", i+1, len(targets)))
		o := &targets[i]
		var err error
		if o.start, o.end, err = bounds(ctx, t, o.partition); err != nil {
			return 0, err
		}
		if o.offset == topic.ToEnd {
			o.offset = o.end
		}
		if o.offset > o.end {
			return 0, mainstem.Refusef(mainstem.KindInvalid, "delete records", "%w",
				&topic.OutOfRangeError{Topic: t.Name(), Partition: o.partition, Offset: o.offset, Start: o.start, End: o.end})
		}
		o.offset = max(o.offset, o.start)
		lost += o.offset - o.start
	}
	return lost, nil
}

func targetFields(name string, targets []target, lost int64) *cli.Fields {
	list := make([][]byte, len(targets))
	for i, o := range targets {
		list[i] = new(cli.Fields).Add("partition", o.partition).Add("old_start", o.start).Add("start", o.offset).Add("end", o.end).Object()
	}
	return new(cli.Fields).Add("topic", name).Add("offsets", lost).Raw("partitions", fmt.Appendf(nil, "[%s]", bytes.Join(list, []byte{','})))
}

func (m commands) printTargets(targets []target) error {
	rows := make([][]string, len(targets))
	for i, o := range targets {
		rows[i] = strings.Fields(fmt.Sprint(o.partition, o.start, o.offset, o.end))
	}
	return m.Columns([]string{"partition", "old start", "start", "end"}, rows)
}
