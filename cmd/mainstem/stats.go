package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
)

func (m *Main) stats() *cobra.Command {
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
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.withLog(cmd, reading, func(ctx context.Context, log mainstem.Log) error {
				return m.printStats(ctx, log, space)
			})
		},
	}
	cmd.Flags().StringVar(&space, "space", "", "only spaces whose names start with this `text`")
	return cmd
}

func (m *Main) printStats(ctx context.Context, log mainstem.Log, prefix string) error {
	w := tabwriter.NewWriter(m.out, 0, 0, 2, ' ', tabwriter.AlignRight|tabwriter.TabIndent)
	if !m.flags.json {
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
		if !m.flags.json {
			fmt.Fprintf(w, "%d\t%d\t%d\t%d\t  %s\n", s.Keys, s.Records, s.Bytes, s.Last, printable([]byte(s.Name)))
			continue
		}
		if err := m.object(spaceFields(&s)); err != nil {
			return err
		}
	}
	head, err := log.Head(ctx)
	if err != nil {
		return err
	}
	if m.flags.json {
		if err := m.noteClock(ctx, log); err != nil {
			return err
		}
		return m.object(new(fields).add("total", true).add("spaces", spaces).add("keys", sum.Keys).
			add("records", sum.Records).add("bytes", sum.Bytes).add("head", head))
	}
	fmt.Fprintf(w, "%d\t%d\t%d\t%d\t  %d spaces in all\n", sum.Keys, sum.Records, sum.Bytes, head, spaces)
	if err := w.Flush(); err != nil {
		return err
	}
	return m.noteClock(ctx, log)
}

func spaceFields(s *mainstem.SpaceInfo) *fields {
	f := new(fields).add("space", s.Name).add("keys", s.Keys).add("records", s.Records).add("bytes", s.Bytes).
		add("last", s.Last).time("created", s.Created).time("updated", s.Updated).add("history", s.Policy.History)
	if s.Policy.MaxAge > 0 {
		f.add("max_age_seconds", s.Policy.MaxAge.Seconds())
	}
	opt(f, "max_bytes", s.Policy.MaxBytes)
	opt(f, "no_feed", s.Policy.NoFeed)
	return f
}

func unsupported(op, why string) error {
	return &mainstem.Error{Kind: mainstem.KindUnsupported, Op: op, Err: fmt.Errorf("%s", why)}
}
