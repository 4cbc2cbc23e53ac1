// Package projectioncmd is the commands of mainstem projection, which work on the projections of event stores.
//
//	mainstem projection list --store shop
//	mainstem projection rebuild orders --store shop
package projectioncmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
)

// commands has a method for each command of the group, and what these share.
type commands struct {
	*cli.Main
	store *string
}

// New returns mainstem projection.
func New(program *cli.Main) *cobra.Command {
	store := ""
	m := commands{program, &store}
	c := &cobra.Command{
		Use:   "projection",
		Short: "Projections of event streams",
		Long: `Projections that programs run over an event store: how they stand, and what they are
to do. The commands read and write records in the log. So they work on whatever
process runs a projection, and need none to be running: what is asked for waits.`,
		RunE: cli.Group,
	}
	c.PersistentFlags().StringVar(m.store, "store", "events", "`name` of the event store")
	c.AddCommand(m.newList(), m.newStatus(), m.newPause(), m.newResume(), m.newRebuild(), m.newReplay(), m.newSkip())
	return c
}

// withEngine opens an engine that runs nothing.
func (m commands) withEngine(cmd *cobra.Command, a cli.Access, do func(context.Context, *projection.Engine) error) error {
	return m.WithLog(cmd, a, func(ctx context.Context, log mainstem.Log) error {
		s, err := event.Open(log, *m.store, nil)
		if err != nil {
			return err
		}
		e, err := projection.Open(s, event.NewTypes(nil), &projection.Options{Logger: m.Logger()})
		if err != nil {
			return err
		}
		return do(ctx, e)
	})
}

func (m commands) newPause() *cobra.Command {
	return &cobra.Command{
		Use:   "pause NAME",
		Short: "Stop a projection until it is resumed",
		Long: `Stop a projection, in whatever processes it runs. When the command returns, nothing
more is committed by it; a program that starts later finds it paused.`,
		Example: `  mainstem projection pause orders --store shop`,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.withEngine(cmd, cli.Writing, func(ctx context.Context, e *projection.Engine) error {
				return m.done(args[0], "paused", e.Pause(ctx, args[0]))
			})
		},
	}
}

func (m commands) newResume() *cobra.Command {
	return &cobra.Command{
		Use:     "resume NAME",
		Short:   "Let a projection that was paused go on",
		Long:    `Let a projection that was paused go on from its checkpoint.`,
		Example: `  mainstem projection resume orders --store shop`,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.withEngine(cmd, cli.Writing, func(ctx context.Context, e *projection.Engine) error {
				return m.done(args[0], "resumed", e.Resume(ctx, args[0]))
			})
		},
	}
}

// done prints what was done with a projection, if it was.
func (m commands) done(name, did string, err error) error {
	if err != nil {
		return err
	}
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("store", *m.store).Add("projection", name).Add(did, true))
	}
	return m.Line(cli.Printable(name), did)
}
