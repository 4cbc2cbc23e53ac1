package eventcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
)

func (m commands) newAppend(store *string) *cobra.Command {
	var e event.Event
	var expect, id string
	var meta []string
	cmd := &cobra.Command{
		Use:   "append STREAM --type TYPE [DATA|-]",
		Short: "Append one event to a stream",
		Long: `Append one event to a stream, its data from the argument or, with - or no DATA, from
standard input.

--expect says what the stream must be: any (the default), none (it must not exist),
exists, or its version; otherwise nothing is written and it is a conflict (exit
status 4), or not found (3) for exists.

--id makes appending again safe: the second time nothing is written. It is a UUID,
or any text, which stands for the name-based UUID of it.`,
		Example: `  mainstem event append order-42 --type OrderPlaced '{"total":17}' --expect none
  mainstem event append order-42 --type OrderPaid --expect 1 --user ada < payment.json
  mainstem event append order-42 --type OrderSent '{}' --id shipment-9 --meta carrier=dhl
  mainstem event append seat-7 --type SeatTaken '{}' --tag course:c1 --tag student:ada`,
		Args: cli.Args(1, 2),
		RunE: func(cmd *cobra.Command, a []string) error {
			expected, err := parseExpected(expect)
			if err == nil {
				e.Metadata.Custom, err = cli.Pairs("meta", meta)
			}
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			if e.Data, err = m.Input(a, 1); err != nil {
				return err
			}
			if id != "" {
				e.ID = eventID(id)
			}
			if !cmd.Flags().Changed("content-type") {
				e.ContentType = contentType(e.Data)
			}
			return m.withStore(cmd, cli.Writing, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				w, err := s.Append(ctx, a[0], expected, []event.Event{e})
				if err != nil {
					return err
				}
				return m.printAppended(s.Name(), &w)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&e.Type, "type", "", "`type` of the event (required)")
	f.StringVar(&expect, "expect", "any", "any, none, exists or a `version`")
	f.StringVar(&id, "id", "", "`id` of the event, a UUID or any text (default a new UUID)")
	f.StringVar(&e.ContentType, "content-type", "", "what the data `is` (default application/json if it is JSON)")
	f.StringVar(&e.Metadata.CorrelationID, "correlation", "", "`id` of the conversation that the event belongs to")
	f.StringVar(&e.Metadata.CausationID, "causation", "", "`id` of the message that caused the event")
	f.StringVar(&e.Metadata.UserID, "user", "", "`id` of the user")
	f.StringVar(&e.Metadata.TenantID, "tenant", "", "`id` of the tenant")
	f.StringArrayVar(&e.Tags, "tag", nil, "`tag` that queries find the event by; may be repeated")
	f.StringArrayVar(&meta, "meta", nil, "`NAME=VALUE` of custom metadata; may be repeated")
	cli.Required(cmd, "type")
	return cmd
}

func (m commands) printAppended(store string, w *event.Appended) error {
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("store", store).Add("stream", w.Stream).Add("version", w.Last).
			Add("position", w.LastPosition).Time("time", w.Time).Add("duplicate", w.Duplicate))
	}
	if w.Duplicate {
		return m.Line("version", cli.Number(w.Last), "was there already")
	}
	return m.Line("version", cli.Number(w.Last))
}
