package eventcmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
)

func (m commands) newQuery(store *string) *cobra.Command {
	var o event.QueryOptions
	var it event.Item
	var after uint64
	var plan bool
	cmd := &cobra.Command{
		Use:   "query",
		Short: "Show the events that have given types and tags",
		Long: `Show the events of a store, of whatever stream, that have one of the types and all
of the tags given, in the order in which they were committed: position, stream,
version, type and data, separated by tabs. Position is the cursor: --after goes on
behind it.

A store with an index (mainstem event index) is read by it, one without from its
beginning. --plan shows which, and reads no events.`,
		Example: `  mainstem event query --type StudentSubscribed --tag course:c1
  mainstem event query --tag course:c1 --tag student:ada --json
  mainstem event query --tag course:c1 --backward --limit 1
  mainstem event query --type CourseDefined --after 1234 --follow --json`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.After = mainstem.Position(after)
			return m.withStore(cmd, cli.Reading, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				q := event.Query{it}
				if !plan {
					_, err := m.printEvents(s, s.Query(ctx, q, &o), o.Follow)
					return cli.UnlessInterrupted(ctx, err)
				}
				text, err := s.Plan(ctx, q)
				if err != nil {
					return err
				}
				if m.Flags.JSON {
					return m.Object(new(cli.Fields).Add("store", s.Name()).Add("query", q).Add("plan", text))
				}
				return m.Line(cli.Printable(text))
			})
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&it.Types, "type", nil, "only events of this `type`; may be repeated: one of them")
	f.StringArrayVar(&it.Tags, "tag", nil, "only events with this `tag`; may be repeated: all of them")
	f.Uint64Var(&after, "after", 0, "only events behind this `position`, before it with --backward")
	f.IntVar(&o.Limit, "limit", 0, "at most this `number` of events (default all)")
	f.BoolVar(&o.Backward, "backward", false, "newest first")
	f.BoolVar(&o.Follow, "follow", false, "then wait for more, until interrupted")
	f.BoolVar(&plan, "plan", false, "show how the events would be read")
	return cmd
}

func (m commands) newIndex(store *string) *cobra.Command {
	var o event.IndexOptions
	var pairs []string
	var rebuild bool
	cmd := &cobra.Command{
		Use:   "index",
		Short: "Give a store an index by type and tag",
		Long: `Give a store an index by type and tag, so that queries and feeds by type read only
the events that they show, and appends may depend on queries. Each append then also
writes a small record for the type and each tag of an event. The events that are
there are entered too, while the store is used; interrupted, it is gone on with when
it is called again.

A store that has an index with other options is a conflict, unless --rebuild makes
it anew.`,
		Example: `  mainstem event index --store orders
  mainstem event index --store courses --pair StudentSubscribed=course: --max-tags 4`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, pair := range pairs {
				typ, prefix, _ := strings.Cut(pair, "=")
				o.Pairs = append(o.Pairs, event.Pair{Type: typ, Prefix: prefix})
			}
			wanted := &o
			if f := cmd.Flags(); !f.Changed("all") && !f.Changed("pair") && !f.Changed("max-tags") {
				wanted = nil // as it is
			}
			return m.withStore(cmd, cli.Writing, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				if rebuild {
					return s.Retag(ctx, nil, &event.RetagOptions{Index: wanted})
				}
				return s.CreateIndex(ctx, wanted)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.MaxTags, "max-tags", 0, "most tags that an event may have, a `number` from 1 to 32 (default 8)")
	f.BoolVar(&o.All, "all", false, "also a key that every event has, for conditions on every event")
	f.StringArrayVar(&pairs, "pair", nil, "also keys for events of a type with tags that begin so, as `TYPE=PREFIX`; may be repeated")
	f.BoolVar(&rebuild, "rebuild", false, "make the index anew, also if there is one")
	return cmd
}
