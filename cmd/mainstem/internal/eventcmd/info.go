package eventcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
)

func (m commands) newInfo(store *string) *cobra.Command {
	return &cobra.Command{
		Use:   "info [STREAM]",
		Short: "Describe a stream, or the whole store",
		Long: `Describe one stream without reading through it, or without STREAM the whole store. A
stream that was never written is not found (exit status 3).`,
		Example: `  mainstem event info order-42
  mainstem event info --store commits --json`,
		Args: cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withStore(cmd, cli.Reading, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				if len(a) == 0 {
					return m.storeInfo(ctx, s)
				}
				return m.streamInfo(ctx, s, a[0])
			})
		},
	}
}

func (m commands) streamInfo(ctx context.Context, s *event.Store, stream string) error {
	in, err := s.StreamInfo(ctx, stream)
	if err != nil {
		return err
	}
	if m.Flags.JSON {
		f := new(cli.Fields).Add("store", s.Name()).Text("stream", in.Stream).Add("version", in.Version).Add("first", in.First).
			Add("events", in.Count).Add("position", in.Position).Time("created", in.Created).Time("updated", in.Updated).
			Add("deleted", in.Deleted)
		if in.Seal != event.NotSealed {
			f.Add("seal", in.Seal.String())
		}
		return m.Object(f)
	}
	state := ""
	switch {
	case in.Seal != event.NotSealed:
		state = in.Seal.String()
	case in.Deleted:
		state = "deleted"
	}
	return m.Table([][2]string{
		{"stream", cli.Printable(in.Stream)},
		{"version", cli.Number(in.Version)},
		{"events", cli.Number(in.Count)},
		{"first version", cli.Number(in.First)},
		{"position", cli.Number(in.Position)},
		{"created", cli.TimeText(in.Created)},
		{"updated", cli.TimeText(in.Updated)},
		{"state", state},
	})
}

func (m commands) storeInfo(ctx context.Context, s *event.Store) error {
	st, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	if st.Created.IsZero() {
		return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "event info", Space: s.Space()}
	}
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("store", s.Name()).Add("streams", st.Streams).Add("events", st.Events).
			Add("bytes", st.Bytes).Add("position", st.Last).Time("created", st.Created).Time("updated", st.Updated))
	}
	return m.Table([][2]string{
		{"store", s.Name()},
		{"streams", cli.Number(st.Streams)},
		{"events", cli.Number(st.Events)},
		{"bytes", cli.Number(st.Bytes)},
		{"position", cli.Number(st.Last)},
		{"created", cli.TimeText(st.Created)},
		{"updated", cli.TimeText(st.Updated)},
	})
}
