package projectioncmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
)

// rebuild is the flags of a rebuild.
type rebuild struct {
	from, to      uint64
	inPlace       bool
	keep          time.Duration
	noWait, agree bool
}

func (m commands) newRebuild() *cobra.Command {
	var r rebuild
	cmd := &cobra.Command{
		Use:   "rebuild NAME",
		Short: "Let a projection handle all events again",
		Long: `Let a projection handle all events again, in the programs that run it. They build new
tables beside those that are read, and then let the names stand for the new ones.
The command returns when that is so; with --no-wait, when it is asked for.

With --in-place what is there is removed first, and readers see less until all is
handled. Without --yes that only says what it would do.

An inline projection is refused: its rows are in the commits of the events, and only
its own program has its handlers. There InlineStore.Rebuild, or OpenInline with
InlineOptions.Rebuild, builds its tables beside those that are read, which appends
keep complete meanwhile, and changes them in one commit; status shows how far it is.`,
		Example: `  mainstem projection rebuild orders --store shop --keep-old 24h
  mainstem projection rebuild orders --store shop --in-place --yes`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.withEngine(cmd, cli.Writing, func(ctx context.Context, e *projection.Engine) error {
				return m.runRebuild(ctx, e, args[0], &r)
			})
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&r.from, "from", 0, "leave out the events up to this `position`")
	f.Uint64Var(&r.to, "to", 0, "end at this `position`, and pause there")
	f.BoolVar(&r.inPlace, "in-place", false, "remove what is there first")
	f.DurationVar(&r.keep, "keep-old", projection.DefaultKeep, "how long the old tables stay")
	f.BoolVar(&r.noWait, "no-wait", false, "only ask for it")
	f.BoolVar(&r.agree, "yes", false, "remove what is there")
	return cmd
}

func (m commands) runRebuild(ctx context.Context, e *projection.Engine, name string, r *rebuild) error {
	s, err := e.Status(ctx, name)
	if err != nil {
		return err
	}
	if r.inPlace && !r.agree && !s.Inline {
		return m.would(name, "rebuild", fmt.Sprintf("remove what was computed up to position %d", s.Position))
	}
	o := &projection.RebuildOptions{
		From: mainstem.Position(r.from), To: mainstem.Position(r.to), InPlace: r.inPlace, Keep: r.keep, NoWait: r.noWait,
	}
	meter := m.StartMeter("rebuilding", 0)
	o.Progress = func(done, total uint64) {
		if total > 0 {
			meter.Say(fmt.Sprintf("rebuilding  %s  %d%%", cli.Bar(float64(done)/float64(total)), 100*done/total))
		}
	}
	err = e.Rebuild(ctx, name, o)
	meter.Finish()
	if r.noWait {
		return m.done(name, "requested", err)
	}
	return m.done(name, "rebuilt", err)
}

func (m commands) newSkip() *cobra.Command {
	var agree bool
	cmd := &cobra.Command{
		Use:   "skip NAME",
		Short: "Pass over the event at which a projection is faulted",
		Long: `Put the event aside at which a projection is faulted, that of each partition, and let it
go on after it. A program can handle it later: it is parked. Without --yes the
command only says which it would be.`,
		Example: `  mainstem projection skip orders --store shop
  mainstem projection skip orders --store shop --yes`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.withEngine(cmd, cli.Writing, func(ctx context.Context, e *projection.Engine) error {
				return m.runSkip(ctx, e, args[0], agree)
			})
		},
	}
	cmd.Flags().BoolVar(&agree, "yes", false, "do it")
	return cmd
}

func (m commands) runSkip(ctx context.Context, e *projection.Engine, name string, agree bool) error {
	do := e.Faults
	if agree {
		do = e.Skip
	}
	events, err := do(ctx, name)
	for i := range events {
		if err == nil {
			err = m.printSkipped(&events[i], agree)
		}
	}
	if err != nil || agree {
		return err
	}
	return m.would(name, "skip", "put aside what is shown")
}

func (m commands) printSkipped(p *event.Parked, skipped bool) error {
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("subscription", p.Subscription).Add("position", p.Position).
			Text("stream", p.Stream).Add("version", p.Version).Add("attempts", p.Attempts).Add("error", p.Reason).Add("skipped", skipped))
	}
	return m.Line(cli.Printable(p.Subscription), cli.Number(p.Position), cli.Printable(p.Stream), cli.Number(p.Version), cli.Printable(p.Reason))
}

// would says what was not done for want of --yes.
func (m commands) would(name, op, what string) error {
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("store", *m.store).Add("projection", name).Add("would", what).Add("done", false))
	}
	return m.Line("nothing was changed: " + op + " --yes would " + what)
}
