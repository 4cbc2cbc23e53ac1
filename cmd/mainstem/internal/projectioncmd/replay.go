package projectioncmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event/projection"
)

// replay is the flags of a replay.
type replay struct {
	until          cli.Point
	into           []string
	noWait, cancel bool
}

func (m commands) newReplay() *cobra.Command {
	var r replay
	cmd := &cobra.Command{
		Use:   "replay NAME",
		Short: "Write what a projection computed up to a moment in the past to another table",
		Long: `Let the programs that run a projection handle the events from the first one up to a
position or a time, and write the rows to another table: they show what the read model
was then, by the present handlers. The projection itself and its tables stay as they
are. The command returns when the table is complete; with --no-wait, when it is asked for.

The table must be empty. If the projection writes several, give --into once for each,
as --into TABLE=OTHER. What was deleted or truncated since is not there to be handled.

A replay that was asked for before is replaced, unless it is the same. One that cannot
handle an event is tried again until it can; skip passes over the event, and --cancel
ends it. The rows that it has written stay.

An inline projection is refused: only its own program has its handlers. There
InlineStore.Replay does the same.`,
		Example: `  mainstem projection replay orders --store shop --until 2026-01-01T00:00:00Z --into shop/orders-2025
  mainstem projection replay orders --store shop --cancel`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			into, err := parseInto(r.into)
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.withEngine(cmd, cli.Writing, func(ctx context.Context, e *projection.Engine) error {
				if r.cancel {
					return m.done(args[0], "cancelled", e.CancelReplay(ctx, args[0]))
				}
				return m.runReplay(ctx, e, args[0], into, &r)
			})
		},
	}
	f := cmd.Flags()
	f.Var(&r.until, "until", "end at this "+cli.PointUsage+" (default: now)")
	f.StringArrayVar(&r.into, "into", nil, "`table` to write to, as DATABASE/TABLE or OWN=DATABASE/TABLE; may be repeated")
	f.BoolVar(&r.noWait, "no-wait", false, "only ask for it")
	f.BoolVar(&r.cancel, "cancel", false, "end the replay that is under way")
	cmd.MarkFlagsOneRequired("into", "cancel")
	for _, other := range []string{"into", "until", "no-wait"} {
		cmd.MarkFlagsMutuallyExclusive("cancel", other)
	}
	return cmd
}

func (m commands) runReplay(ctx context.Context, e *projection.Engine, name string, into map[string]string, r *replay) error {
	o := &projection.ReplayOptions{Into: into, Until: r.until.Position, UntilTime: r.until.Time, NoWait: r.noWait}
	meter := m.StartMeter("replaying", 0)
	o.Progress = func(done, total uint64) {
		if total > 0 {
			meter.Say(fmt.Sprintf("replaying  %s  %d%%", cli.Bar(float64(done)/float64(total)), 100*done/total))
		}
	}
	err := e.Replay(ctx, name, o)
	meter.Finish()
	if r.noWait {
		return m.done(name, "requested", err)
	}
	return m.done(name, "replayed", err)
}

// parseInto returns the tables of the --into flags, by the tables of the projection; "" is its only
// one.
func parseInto(flags []string) (map[string]string, error) {
	into := make(map[string]string)
	for _, flag := range flags {
		from, to, ok := strings.Cut(flag, "=")
		if !ok {
			from, to = "", flag
		}
		if _, twice := into[from]; twice || to == "" || ok && from == "" {
			return nil, fmt.Errorf("--into %q: want one DATABASE/TABLE, or OWN=DATABASE/TABLE for each table of the projection", flag)
		}
		into[from] = to
	}
	return into, nil
}

// intoText is the tables of a replay in a line.
func intoText(into map[string]string) string {
	var out []string
	for _, from := range slices.Sorted(maps.Keys(into)) {
		out = append(out, from+"="+into[from])
	}
	return strings.Join(out, ", ")
}
