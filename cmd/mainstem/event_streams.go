package main

import (
	"context"
	"math"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

func (m *Main) eventStreams(store *string) *cobra.Command {
	var o event.ListOptions
	var count bool
	cmd := &cobra.Command{
		Use:   "streams",
		Short: "List streams by name",
		Long: `List the streams of a store in the order of their names: name and version, separated
by a tab. With --limit, a last line on standard error (with --json, on standard
output) gives the cursor of the next page, if there is one.`,
		Example: `  mainstem event streams --store commits
  mainstem event streams --category order --limit 100 --cursor order-731
  mainstem event streams --count`,
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.withStore(cmd, reading, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				if count {
					return m.countStreams(ctx, s, &o)
				}
				return m.printStreams(ctx, s, o)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Category, "category", "", "only streams of this `category`")
	f.StringVar(&o.Prefix, "prefix", "", "only names that start with this `text`")
	f.StringVar(&o.After, "cursor", "", "only names after this `stream`")
	f.IntVar(&o.Limit, "limit", 0, "at most this `number` of streams (default all)")
	f.BoolVar(&o.Reverse, "reverse", false, "from the last name to the first")
	f.BoolVar(&o.Archived, "archived", false, "also archived streams")
	f.BoolVar(&o.Deleted, "deleted", false, "also deleted streams")
	f.BoolVar(&count, "count", false, "only how many streams there are")
	return cmd
}

func (m *Main) printStreams(ctx context.Context, s *event.Store, o event.ListOptions) error {
	limit := o.Limit
	if limit > 0 && limit < math.MaxInt {
		o.Limit++ // the one too many tells that there are more
	}
	n, last := 0, ""
	for e, err := range s.Streams(ctx, &o) {
		if err != nil {
			return err
		}
		if n++; limit > 0 && n > limit {
			return m.printCursor(last)
		}
		last = e.Stream
		if err := m.printStream(s.Name(), &e); err != nil {
			return err
		}
	}
	return nil
}

func (m *Main) printStream(store string, e *event.StreamEntry) error {
	if m.flags.json {
		f := new(fields).add("store", store).text("stream", e.Stream).add("version", e.Version).
			add("position", e.Position).time("updated", e.Updated)
		opt(f, "archived", e.Archived)
		opt(f, "deleted", e.Deleted)
		return m.object(f)
	}
	columns := []string{printable([]byte(e.Stream)), number(e.Version)}
	if e.Archived {
		columns = append(columns, "archived")
	}
	if e.Deleted {
		columns = append(columns, "deleted")
	}
	return m.line(columns...)
}

func (m *Main) countStreams(ctx context.Context, s *event.Store, o *event.ListOptions) error {
	n, err := s.CountStreams(ctx, o)
	if err != nil {
		return err
	}
	if m.flags.json {
		return m.object(new(fields).add("store", s.Name()).add("streams", n))
	}
	return m.line(number(n))
}
