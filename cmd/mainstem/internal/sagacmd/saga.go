// Package sagacmd is the commands of mainstem saga, which show the sagas of an event store, take up again
// those that have failed, pause types of them and remove those that have ended.
//
//	mainstem saga list --store shop --status failed
//	mainstem saga retry fulfilment-42 --store shop
//	mainstem saga pause fulfilment --store shop
//	mainstem saga prune --store shop --older-than 720h
package sagacmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event/saga"
)

// commands has a method for each command of the group, and what these share.
type commands struct{ *cli.Main }

// New returns mainstem saga.
func New(program *cli.Main) *cobra.Command {
	m := commands{program}
	var store string
	c := &cobra.Command{
		Use:   "saga",
		Short: "Sagas of event stores",
		Long: `The sagas of an event store, "events" unless --store says otherwise: where they stand,
what has happened to them, and those that have failed once more. A type of sagas can be
paused and resumed, and sagas that have ended can be removed.

A saga has an ID, TYPE-KEY, as in fulfilment-42, and one of the statuses started,
running, completed, failed, compensating, compensated and compensation_failed.`,
		RunE: cli.Group,
	}
	c.PersistentFlags().StringVar(&store, "store", "events", "`name` of the event store")
	c.AddCommand(m.newStatus(&store), m.newList(&store), m.newShow(&store), m.newRetry(&store),
		m.newPause(&store), m.newResume(&store), m.newRemove(&store), m.newPrune(&store))
	return c
}

// withRecords opens the sagas of a store in the log of the command line.
func (m commands) withRecords(cmd *cobra.Command, store string, do func(context.Context, *saga.Records) error) error {
	return m.WithLog(cmd, cli.Reading, func(ctx context.Context, log mainstem.Log) error {
		r, err := saga.OpenRecords(log, store)
		if err != nil {
			return err
		}
		return do(ctx, r)
	})
}

// fields returns what every command says of a saga.
func fields(store string, i *saga.Instance) *cli.Fields {
	f := new(cli.Fields).Add("store", store).Text("saga", i.ID).Add("type", i.Saga).Text("key", i.Key).Add("status", i.Status)
	cli.Opt(f, "error", i.Error)
	cli.Opt(f, "refused", i.Refused)
	cli.Opt(f, "ignored", i.Ignored)
	return f.Time("created", i.Created).Time("updated", i.Updated)
}

func (m commands) newRetry(store *string) *cobra.Command {
	return &cobra.Command{
		Use:   "retry ID",
		Short: "Take up a saga that has failed",
		Long: `Take up a saga again that is failed, compensated or compensation_failed; another status
is a conflict (exit status 4). The program that runs the sagas does the rest.

One that is failed does again what made it fail, with the commands that were withdrawn
then. One that is compensation_failed sends the refused compensations again. One that is
compensated begins anew with the event that started it.`,
		Example: `  mainstem saga retry fulfilment-42 --store shop`,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withRecords(cmd, *store, func(ctx context.Context, r *saga.Records) error {
				if err := r.Retry(ctx, a[0]); err != nil {
					return err
				}
				i, err := r.Get(ctx, a[0])
				if err != nil {
					return err
				}
				if m.Flags.JSON {
					return m.Object(fields(*store, &i))
				}
				return m.Line(cli.Printable(i.ID), string(i.Status))
			})
		},
	}
}
