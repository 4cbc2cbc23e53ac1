package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

func (m *Main) eventInfo(store *string) *cobra.Command {
	return &cobra.Command{
		Use:   "info [STREAM]",
		Short: "Describe a stream, or the whole store",
		Long: `Describe one stream without reading through it, or without STREAM the whole store. A
stream that was never written is not found (exit status 3).`,
		Example: `  mainstem event info order-42
  mainstem event info --store commits --json`,
		Args: args(0, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withStore(cmd, reading, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				if len(a) == 0 {
					return m.storeInfo(ctx, s)
				}
				return m.streamInfo(ctx, s, a[0])
			})
		},
	}
}

func (m *Main) streamInfo(ctx context.Context, s *event.Store, stream string) error {
	in, err := s.StreamInfo(ctx, stream)
	if err != nil {
		return err
	}
	if m.flags.json {
		f := new(fields).add("store", s.Name()).text("stream", in.Stream).add("version", in.Version).add("first", in.First).
			add("events", in.Count).add("position", in.Position).time("created", in.Created).time("updated", in.Updated).
			add("deleted", in.Deleted)
		if in.Seal != event.NotSealed {
			f.add("seal", in.Seal.String())
		}
		return m.object(f)
	}
	state := ""
	switch {
	case in.Seal != event.NotSealed:
		state = in.Seal.String()
	case in.Deleted:
		state = "deleted"
	}
	return m.table([][2]string{
		{"stream", printable([]byte(in.Stream))},
		{"version", number(in.Version)},
		{"events", number(in.Count)},
		{"first version", number(in.First)},
		{"position", number(in.Position)},
		{"created", timeText(in.Created)},
		{"updated", timeText(in.Updated)},
		{"state", state},
	})
}

func (m *Main) storeInfo(ctx context.Context, s *event.Store) error {
	st, err := s.Stats(ctx)
	if err != nil {
		return err
	}
	if st.Created.IsZero() {
		return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "event info", Space: s.Space()}
	}
	if m.flags.json {
		return m.object(new(fields).add("store", s.Name()).add("streams", st.Streams).add("events", st.Events).
			add("bytes", st.Bytes).add("position", st.Last).time("created", st.Created).time("updated", st.Updated))
	}
	return m.table([][2]string{
		{"store", s.Name()},
		{"streams", number(st.Streams)},
		{"events", number(st.Events)},
		{"bytes", number(st.Bytes)},
		{"position", number(st.Last)},
		{"created", timeText(st.Created)},
		{"updated", timeText(st.Updated)},
	})
}
