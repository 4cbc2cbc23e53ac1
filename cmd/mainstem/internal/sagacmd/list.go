package sagacmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event/saga"
)

func (m commands) newList(store *string) *cobra.Command {
	var names []string
	var limit int
	cmd := &cobra.Command{
		Use:   "list [TYPE]",
		Short: "List sagas",
		Long: `List the sagas of a store, those of one TYPE if it is given: ID, status, when it changed
last and, if it has failed, why, separated by tabs. They come in the order of their IDs;
with --status, those of the first status named come first.`,
		Example: `  mainstem saga list --store shop
  mainstem saga list fulfilment --store shop --status failed --status compensation_failed`,
		Args: cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			var statuses []saga.Status
			for _, name := range names {
				s, err := saga.ParseStatus(name)
				if err != nil {
					return cli.WrongUsage(cmd, err)
				}
				statuses = append(statuses, s)
			}
			typ := ""
			if len(a) == 1 {
				typ = a[0]
			}
			return m.withRecords(cmd, *store, func(ctx context.Context, r *saga.Records) error {
				n := 0
				for i, err := range r.Find(ctx, typ, statuses...) {
					if err != nil {
						return err
					}
					if n++; limit > 0 && n > limit {
						return nil
					}
					if err := m.printOne(*store, &i); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&names, "status", nil, "only sagas with this `status`; may be given several times")
	f.IntVar(&limit, "limit", 0, "at most this `number` of sagas (default all)")
	return cmd
}

// printOne writes one saga as a line.
func (m commands) printOne(store string, i *saga.Instance) error {
	if m.Flags.JSON {
		return m.Object(fields(store, i))
	}
	columns := []string{cli.Printable(i.ID), string(i.Status), cli.TimeText(i.Updated)}
	if i.Error != "" {
		columns = append(columns, cli.Printable(i.Error))
	}
	return m.Line(columns...)
}
