package eventcmd

import (
	"context"
	"errors"
	"iter"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
)

func (m commands) newLoad(store *string) *cobra.Command {
	var o event.LoadOptions
	var from, to, version uint64
	var until cli.Point
	cmd := &cobra.Command{
		Use:   "load STREAM",
		Short: "Show the events of one stream",
		Long: `Show the events of one stream: position, stream, version, type and data, separated
by tabs. A stream that was never written or was deleted is not found (exit status
3), unless --follow waits for it.

--version shows one event; if the stream does not hold it, it is not found. --at is
--until by the name that mainstem kv get and list have for it.`,
		Example: `  mainstem event load order-42
  mainstem event load order-42 --version 7 --json
  mainstem event load order-42 --backward --limit 1 --json
  mainstem event load order-42 --from 8 --follow
  mainstem event load order-42 --until 2026-01-02T15:04:05Z`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			o.From, o.To = mainstem.Version(from), mainstem.Version(to)
			one := cmd.Flags().Changed("version")
			if one {
				if version == 0 {
					return cli.WrongUsage(cmd, errors.New("--version is 0: versions begin at 1"))
				}
				o.From, o.To = mainstem.Version(version), mainstem.Version(version)
			}
			return m.withStore(cmd, cli.Reading, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				limit := untilLimit(&until, &o.Limit)
				n, err := m.printEvents(s, eventsUntil(s.Events(ctx, a[0], &o), &until, limit, o.Backward), o.Follow)
				if err != nil {
					return cli.UnlessInterrupted(ctx, err)
				}
				if n == 0 && one {
					return mainstem.Errorf(mainstem.KindNotFound, "event load", "the stream %s of the store %s does not hold version %d", cli.Printable(a[0]), s.Name(), version)
				}
				if n == 0 {
					// Nothing in the bounds, or nothing at all: only the second is an error.
					var in event.StreamInfo
					if in, err = s.StreamInfo(ctx, a[0]); err == nil && in.Deleted {
						err = mainstem.Errorf(mainstem.KindNotFound, "event load", "the stream %s of the store %s was deleted", cli.Printable(a[0]), s.Name())
					}
				}
				return err
			})
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&from, "from", 0, "from this `version` on")
	f.Uint64Var(&to, "to", 0, "up to this `version`")
	f.Uint64Var(&version, "version", 0, "only the event of this `version`")
	f.IntVar(&o.Limit, "limit", 0, "at most this `number` of events (default all)")
	f.BoolVar(&o.Backward, "backward", false, "newest first")
	f.BoolVar(&o.Follow, "follow", false, "then wait for more, until interrupted")
	addUntil(cmd, &until)
	f.Var(&until, "at", "as it was at this "+cli.PointUsage)
	for _, other := range [][]string{{"at", "until"}, {"at", "follow"}, {"version", "from"}, {"version", "to"}, {"version", "follow"}} {
		cmd.MarkFlagsMutuallyExclusive(other...)
	}
	return cmd
}

func (m commands) newFeed(store *string) *cobra.Command {
	var o event.FeedOptions
	var after uint64
	var until cli.Point
	cmd := &cobra.Command{
		Use:   "feed",
		Short: "Show the events of all streams in the order of the log",
		Long: `Show the events of all streams of a store in the order in which they were
committed: position, stream, version, type and data, separated by tabs. Position is
the cursor: --after goes on behind it, and misses nothing.`,
		Example: `  mainstem event feed --store commits --limit 10
  mainstem event feed --category order --type OrderPlaced --type OrderPaid
  mainstem event feed --after 1234 --follow --json
  mainstem event feed --after 1234 --until 5678`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.After = mainstem.Position(after)
			return m.withStore(cmd, cli.Reading, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				limit := untilLimit(&until, &o.Limit)
				_, err := m.printEvents(s, eventsUntil(s.Feed(ctx, &o), &until, limit, false), o.Follow)
				return cli.UnlessInterrupted(ctx, err)
			})
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&after, "after", 0, "only events after this `position`")
	f.StringVar(&o.Category, "category", "", "only streams of this `category`")
	f.StringArrayVar(&o.Types, "type", nil, "only events of this `type`; may be repeated")
	f.StringArrayVar(&o.Streams, "stream", nil, "only this `stream`; may be repeated")
	f.BoolVar(&o.Archived, "archived", false, "also the events of archived streams")
	f.BoolVar(&o.Deletions, "deletions", false, "also show where streams were deleted")
	f.IntVar(&o.Limit, "limit", 0, "at most this `number` of events (default all)")
	f.BoolVar(&o.Follow, "follow", false, "then wait for more, until interrupted")
	addUntil(cmd, &until)
	return cmd
}

func addUntil(cmd *cobra.Command, until *cli.Point) {
	cmd.Flags().Var(until, "until", "only events up to this "+cli.PointUsage)
	cmd.MarkFlagsMutuallyExclusive("until", "follow")
}

// untilLimit takes over the limit of a read whose newest events may be left out.
func untilLimit(until *cli.Point, limit *int) int {
	n := *limit
	if until.IsSet() && n > 0 { // a negative one is for the store to refuse
		*limit = 0
	}
	return n
}

// eventsUntil yields the events of seq that were there at until, at most limit.
func eventsUntil(seq iter.Seq2[event.Recorded, error], until *cli.Point, limit int, backward bool) iter.Seq2[event.Recorded, error] {
	if !until.IsSet() {
		return seq
	}
	return func(yield func(event.Recorded, error) bool) {
		n := 0
		for e, err := range seq {
			if err == nil && !until.Has(e.Position, e.Time) {
				if backward {
					continue
				}
				return // nor was any that follows
			}
			if n++; !yield(e, err) || err != nil || n == limit {
				return
			}
		}
	}
}

// printEvents writes a sequence of events and returns how many there were. To
// somebody who follows, each is handed over at once.
func (m commands) printEvents(s *event.Store, seq iter.Seq2[event.Recorded, error], follow bool) (n int, err error) {
	for e, err := range seq {
		if err == nil {
			err = m.printEvent(s.Name(), &e)
		}
		if err == nil && follow {
			err = m.Flush()
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
