package eventcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
)

func (m commands) newStreams(store *string) *cobra.Command {
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
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.withStore(cmd, cli.Reading, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
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

func (m commands) printStreams(ctx context.Context, s *event.Store, o event.ListOptions) error {
	limit := o.Limit
	o.Limit = cli.OneMore(limit)
	return cli.PrintPage(m.Main, s.Streams(ctx, &o), limit, func(e *event.StreamEntry) (string, error) {
		return e.Stream, m.printStream(s.Name(), e)
	})
}

func (m commands) printStream(store string, e *event.StreamEntry) error {
	if m.Flags.JSON {
		f := new(cli.Fields).Add("store", store).Text("stream", e.Stream).Add("version", e.Version).
			Add("position", e.Position).Time("updated", e.Updated)
		cli.Opt(f, "archived", e.Archived)
		cli.Opt(f, "deleted", e.Deleted)
		return m.Object(f)
	}
	columns := []string{cli.Printable(e.Stream), cli.Number(e.Version)}
	if e.Archived {
		columns = append(columns, "archived")
	}
	if e.Deleted {
		columns = append(columns, "deleted")
	}
	return m.Line(columns...)
}

func (m commands) countStreams(ctx context.Context, s *event.Store, o *event.ListOptions) error {
	n, err := s.CountStreams(ctx, o)
	if err != nil {
		return err
	}
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("store", s.Name()).Add("streams", n))
	}
	return m.Line(cli.Number(n))
}
