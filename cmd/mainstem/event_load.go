package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

func (m *Main) eventLoad(store *string) *cobra.Command {
	var o event.LoadOptions
	var from, to uint64
	cmd := &cobra.Command{
		Use:   "load STREAM",
		Short: "Show the events of one stream",
		Long: `Show the events of one stream: position, stream, version, type and data, separated
by tabs. A stream that was never written or was deleted is not found (exit status
3), unless --follow waits for it.`,
		Example: `  mainstem event load order-42
  mainstem event load order-42 --backward --limit 1 --json
  mainstem event load order-42 --from 8 --follow`,
		Args: args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			o.From, o.To = mainstem.Version(from), mainstem.Version(to)
			return m.withStore(cmd, reading, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				n, err := m.printEvents(s, s.Events(ctx, a[0], &o), o.Follow)
				if err != nil {
					return m.ended(ctx, err)
				}
				if n == 0 {
					// Nothing in the bounds, or nothing at all: only the second is an error.
					_, err = s.StreamInfo(ctx, a[0])
				}
				return err
			})
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&from, "from", 0, "from this `version` on")
	f.Uint64Var(&to, "to", 0, "up to this `version`")
	f.IntVar(&o.Limit, "limit", 0, "at most this `number` of events (default all)")
	f.BoolVar(&o.Backward, "backward", false, "newest first")
	f.BoolVar(&o.Follow, "follow", false, "then wait for more, until interrupted")
	return cmd
}
