package sagacmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event/saga"
)

func (m commands) newStatus(store *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status [TYPE]",
		Short: "Show how the types of sagas stand",
		Long: fmt.Sprintf(`Show how the types of sagas of a store stand that programs have ever run, or one TYPE: the
type, running or paused, how many sagas are under way, how many events are to be handled,
how many commands wait to be carried out, and since when the oldest waits of them and of
the timeouts that are due, separated by tabs. With a TYPE there is more: how many sagas
have which status, among others. Each number is counted up to %d.`, saga.MaxCount),
		Example: `  mainstem saga status --store shop
  mainstem saga status fulfilment --store shop --json`,
		Args: cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withRecords(cmd, *store, func(ctx context.Context, r *saga.Records) error {
				if len(a) == 1 {
					o, err := r.Overview(ctx, a[0])
					if err != nil {
						return err
					}
					return m.printType(*store, &o)
				}
				all, err := r.Overviews(ctx)
				for i := range all {
					if err == nil {
						err = m.printTypeLine(*store, &all[i])
					}
				}
				return err
			})
		},
	}
}

// state says whether a type is paused.
func state(o *saga.Overview) string {
	if o.Paused.IsZero() {
		return "running"
	}
	return "paused"
}

// count is a number that was counted up to a limit.
func count(n uint64) string {
	if n >= saga.MaxCount {
		return fmt.Sprintf("%d or more", n)
	}
	return cli.Number(n)
}

// moment is a time, or "-" for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return cli.TimeText(t)
}

func (m commands) typeObject(store string, o *saga.Overview) error {
	f := new(cli.Fields).Add("store", store).Add("type", o.Saga).Add("paused", !o.Paused.IsZero()).Add("running", o.Running())
	if !o.Paused.IsZero() {
		f.Time("paused_since", o.Paused)
	}
	f.Add("statuses", o.Count).Add("position", o.Position).Add("lag", o.Lag).Add("parked", o.Parked).Add("commands", o.Commands).Add("timeouts", o.Timeouts)
	if !o.Waiting.IsZero() {
		f.Time("waiting_since", o.Waiting)
	}
	return m.Object(f)
}

func (m commands) printTypeLine(store string, o *saga.Overview) error {
	if m.Flags.JSON {
		return m.typeObject(store, o)
	}
	return m.Line(o.Saga, state(o), count(o.Running()), count(o.Lag), count(o.Commands), moment(o.Waiting))
}

func (m commands) printType(store string, o *saga.Overview) error {
	if m.Flags.JSON {
		return m.typeObject(store, o)
	}
	lines := [][2]string{{"type", o.Saga}, {"state", state(o)}}
	if !o.Paused.IsZero() {
		lines = append(lines, [2]string{"paused since", cli.TimeText(o.Paused)})
	}
	for _, s := range saga.Statuses {
		lines = append(lines, [2]string{string(s), count(o.Count[s])})
	}
	lines = append(lines, [][2]string{
		{"position", cli.Number(o.Position)}, {"lag", count(o.Lag)}, {"parked", count(o.Parked)}, {"commands", count(o.Commands)},
		{"timeouts", count(o.Timeouts)}, {"waiting since", moment(o.Waiting)},
	}...)
	return m.Table(lines)
}

func (m commands) newPause(store *string) *cobra.Command {
	return &cobra.Command{
		Use:   "pause TYPE",
		Short: "Stop the sagas of a type",
		Long: `Stop the sagas of a type, in whatever programs they run, until they are resumed: when the
command returns, nothing more is committed for them. Events, commands and timeouts wait.
Timeouts go on counting. A type that no program has run yet is not found (exit status 3).`,
		Example: `  mainstem saga pause fulfilment --store shop`,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.changeType(cmd, *store, a[0], (*saga.Records).Pause)
		},
	}
}

func (m commands) newResume(store *string) *cobra.Command {
	return &cobra.Command{
		Use:   "resume TYPE",
		Short: "Let the sagas of a type go on",
		Long: `Let the sagas of a type that was paused go on where they were. Timeouts that have become
due meanwhile come at once, after the events that are there.`,
		Example: `  mainstem saga resume fulfilment --store shop`,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.changeType(cmd, *store, a[0], (*saga.Records).Resume)
		},
	}
}

// changeType changes how a type stands, and prints that.
func (m commands) changeType(cmd *cobra.Command, store, typ string, change func(*saga.Records, context.Context, string) error) error {
	return m.withRecords(cmd, store, func(ctx context.Context, r *saga.Records) error {
		if err := change(r, ctx, typ); err != nil {
			return err
		}
		o, err := r.Overview(ctx, typ)
		if err != nil {
			return err
		}
		return m.printTypeLine(store, &o)
	})
}
