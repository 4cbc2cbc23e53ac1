package sagacmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event/saga"
)

func (m commands) newRemove(store *string) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "remove ID...",
		Short: "Remove sagas that have ended",
		Long: `Remove sagas that have ended, with their histories, one after the other. One that is under
way, or has commands left to carry out, is a conflict (exit status 4). Nothing is left
of them: an event that starts a saga with the same key starts a new one.`,
		Example: `  mainstem saga remove fulfilment-42 --store shop
  mainstem saga remove fulfilment-42 --store shop --dry-run`,
		Args: cli.Args(1, -1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return m.withRecords(cmd, *store, func(ctx context.Context, r *saga.Records) error {
				for _, id := range ids {
					i, err := r.Get(ctx, id)
					if err != nil {
						return err
					}
					remove := r.Remove
					if dry {
						remove = r.Removable
					}
					if err := remove(ctx, id); err != nil {
						return err
					}
					if err := m.printRemoved(*store, &i, !dry); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be removed")
	return cmd
}

// prune is the flags of mainstem saga prune.
type prune struct {
	names []string
	older time.Duration
	limit int
	dry   bool
}

func (m commands) newPrune(store *string) *cobra.Command {
	var p prune
	cmd := &cobra.Command{
		Use:   "prune [TYPE]",
		Short: "Remove sagas that ended long ago",
		Long: `Remove sagas, of one TYPE if it is given, that ended longer ago than --older-than, as
remove does, and print each: those that are completed or compensated, or have the
statuses of --status. Those with commands left to carry out stay. With --dry-run
nothing is removed.`,
		Example: `  mainstem saga prune --store shop --older-than 720h --dry-run
  mainstem saga prune fulfilment --store shop --older-than 720h --status failed`,
		Args: cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			o := &saga.PruneOptions{Limit: p.limit, DryRun: p.dry}
			for _, name := range p.names {
				s, err := saga.ParseStatus(name)
				if err != nil {
					return cli.WrongUsage(cmd, err)
				}
				o.Statuses = append(o.Statuses, s)
			}
			if p.older <= 0 {
				return cli.WrongUsage(cmd, mainstem.Errorf(mainstem.KindInvalid, "prune", "--older-than is %v: want a duration above 0, such as 720h", p.older))
			}
			if len(a) == 1 {
				o.Saga = a[0]
			}
			o.Before = time.Now().Add(-p.older)
			return m.withRecords(cmd, *store, func(ctx context.Context, r *saga.Records) error {
				for i, err := range r.Prune(ctx, o) {
					if err != nil {
						return err
					}
					if err := m.printRemoved(*store, &i, !p.dry); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.DurationVar(&p.older, "older-than", 0, "how long ago they have ended, a `duration` such as 720h; it must be given")
	f.StringArrayVar(&p.names, "status", nil, "only sagas with this `status`, one of those that have ended; may be given several times")
	f.IntVar(&p.limit, "limit", 0, "at most this `number` of sagas (default all)")
	f.BoolVar(&p.dry, "dry-run", false, "only say what would be removed")
	return cmd
}

// printRemoved writes a saga that was removed, or would be.
func (m commands) printRemoved(store string, i *saga.Instance, removed bool) error {
	if m.Flags.JSON {
		return m.Object(fields(store, i).Add("removed", removed))
	}
	what := "removed"
	if !removed {
		what = "would be removed"
	}
	return m.Line(cli.Printable(i.ID), string(i.Status), cli.TimeText(i.Updated), what)
}
