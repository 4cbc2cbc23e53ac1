package logcmd

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

func (m commands) newStats() *cobra.Command {
	var space string
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show what a log holds",
		Long: `Show the spaces of a log with their keys, records, bytes and last positions, and the
sum of them. Buckets are spaces kv/DATABASE/TABLE, event stores event/STORE, topics
topic/NAME. A clock that is not believed, or behind the newest record, is shown too: see
mainstem clock.`,
		Example: `  mainstem stats
  mainstem stats --space event/ --json`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.WithLog(cmd, cli.Reading, func(ctx context.Context, log mainstem.Log) error {
				return m.printStats(ctx, log, space)
			})
		},
	}
	cmd.Flags().StringVar(&space, "space", "", "only spaces whose names start with this `text`")
	return cmd
}

func (m commands) printStats(ctx context.Context, log mainstem.Log, prefix string) error {
	w := tabwriter.NewWriter(m.Out, 0, 0, 2, ' ', tabwriter.AlignRight|tabwriter.TabIndent)
	if !m.Flags.JSON {
		fmt.Fprintf(w, "keys\trecords\tbytes\tlast\t  space\n")
	}
	var sum mainstem.SpaceInfo
	spaces := 0
	for s, err := range log.Spaces(ctx, prefix) {
		if err != nil {
			return err
		}
		spaces++
		sum.Keys, sum.Records, sum.Bytes = sum.Keys+s.Keys, sum.Records+s.Records, sum.Bytes+s.Bytes
		if !m.Flags.JSON {
			fmt.Fprintf(w, "%d\t%d\t%d\t%d\t  %s\n", s.Keys, s.Records, s.Bytes, s.Last, cli.Printable(s.Name))
			continue
		}
		if err := m.Object(spaceFields(&s)); err != nil {
			return err
		}
	}
	head, err := log.Head(ctx)
	if err != nil {
		return err
	}
	if m.Flags.JSON {
		if err := m.noteClock(ctx, log); err != nil {
			return err
		}
		return m.Object(new(cli.Fields).Add("total", true).Add("spaces", spaces).Add("keys", sum.Keys).
			Add("records", sum.Records).Add("bytes", sum.Bytes).Add("head", head))
	}
	fmt.Fprintf(w, "%d\t%d\t%d\t%d\t  %d spaces in all\n", sum.Keys, sum.Records, sum.Bytes, head, spaces)
	if err := w.Flush(); err != nil {
		return err
	}
	return m.noteClock(ctx, log)
}

func spaceFields(s *mainstem.SpaceInfo) *cli.Fields {
	f := new(cli.Fields).Add("space", s.Name).Add("keys", s.Keys).Add("records", s.Records).Add("bytes", s.Bytes).
		Add("last", s.Last).Time("created", s.Created).Time("updated", s.Updated)
	cli.AddPolicy(f, &s.Policy)
	return f
}
