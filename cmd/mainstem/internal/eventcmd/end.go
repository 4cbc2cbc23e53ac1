package eventcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/event"
)

// ending is a command that ends a stream, or a part of it.
type ending struct {
	use, short, long, example string
	verb                      string // what is done to the events, as in "delete order-42"
	done                      string // field of --json that says it was done
	expects                   bool   // it has the flag --expect
	missing                   bool   // a stream without events is no error
	do                        func(ctx context.Context, s *event.Store, stream string, expected event.Expected) error
}

func (m commands) newDelete(store *string) *cobra.Command {
	return m.newEnding(store, &ending{
		use: "delete STREAM", short: "Delete the events of a stream",
		long: `Delete the events of a stream; it may begin again. A tombstone stays, so that feeds can
show the deletion, and versions go on behind it. Nothing brings the events back:
mainstem event archive is what can be undone.`,
		example: `  mainstem event delete order-42 --dry-run
  mainstem event delete order-42 --expect 7 --yes`,
		verb: "delete", done: "deleted", expects: true,
		do: func(ctx context.Context, s *event.Store, stream string, expected event.Expected) error {
			return s.Delete(ctx, stream, expected)
		},
	})
}

func (m commands) newTombstone(store *string) *cobra.Command {
	return m.newEnding(store, &ending{
		use: "tombstone STREAM", short: "Delete a stream, and never let it begin again",
		long: `Delete the events and settings of a stream, and refuse every append to it from then
on. Nothing but mainstem event forget undoes that. A stream that never had events may be
tombstoned too.`,
		example: `  mainstem event tombstone order-42 --dry-run
  mainstem event tombstone order-42 --yes`,
		verb: "tombstone", done: "tombstoned", expects: true, missing: true,
		do: func(ctx context.Context, s *event.Store, stream string, expected event.Expected) error {
			return s.Tombstone(ctx, stream, expected)
		},
	})
}

func (m commands) newForget(store *string) *cobra.Command {
	return m.newEnding(store, &ending{
		use: "forget STREAM", short: "Remove every trace of a stream",
		long: `Remove every trace of a stream: events, snapshots, settings, archive or tombstone, so
that readers and feeds find nothing. The stream may begin again; its versions do not
repeat. The files of the log lose the bytes when they are next rewritten, or with
mainstem compact.`,
		example: `  mainstem event forget user-7 --dry-run
  mainstem event forget user-7 --yes`,
		verb: "forget", done: "forgotten", missing: true,
		do: func(ctx context.Context, s *event.Store, stream string, _ event.Expected) error {
			return s.Forget(ctx, stream)
		},
	})
}

func (m commands) newEnding(store *string, e *ending) *cobra.Command {
	var consent cli.Consent
	expect := "any"
	cmd := &cobra.Command{
		Use: e.use, Short: e.short, Long: e.long + "\n\n" + cli.ConsentHelp, Example: e.example,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			expected, err := parseExpected(expect)
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.withStore(cmd, cli.Reading, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				return m.end(ctx, cmd, s, a[0], e, expected, &consent)
			})
		},
	}
	consent.Add(cmd)
	if e.expects {
		cmd.Flags().StringVar(&expect, "expect", "any", "any, none, exists or a `version`; a person who agrees expects the one that was shown")
	}
	return cmd
}

func (m commands) end(ctx context.Context, cmd *cobra.Command, s *event.Store, stream string, e *ending, expected event.Expected, consent *cli.Consent) error {
	in, err := s.StreamInfo(ctx, stream)
	if err != nil && !(e.missing && errors.Is(err, mainstem.ErrNotFound)) {
		return err
	}
	fields := new(cli.Fields).Add("store", s.Name()).Text("stream", stream).Add("version", in.Version).Add("events", in.Count)
	text := fmt.Sprintf("%s %s of the store %s: %s", e.verb, cli.Printable(stream), s.Name(), cli.Plural(in.Count, "event"))
	agreed, asked, err := m.Confirm(cmd, consent, cli.Loss{Text: text, Fields: fields})
	if !agreed {
		return err
	}
	if asked && in.Count > 0 && expected == event.AnyVersion {
		expected = event.AtVersion(in.Version)
	}
	if err := e.do(ctx, s, stream, expected); err != nil {
		return err
	}
	return m.did(fields.Add(e.done, true))
}

// did writes with --json what was done. Without it the exit status says so.
func (m commands) did(f *cli.Fields) error {
	if !m.Flags.JSON {
		return nil
	}
	return m.Object(f)
}

func (m commands) newTruncate(store *string) *cobra.Command {
	var before, keep uint64
	var consent cli.Consent
	cmd := &cobra.Command{
		Use:   "truncate STREAM",
		Short: "Remove the oldest events of a stream",
		Long: `Remove the oldest events of a stream: those before a version, or all but the newest.
Versions do not change. Removing all leaves a stream that goes on with the next version.

` + cli.ConsentHelp,
		Example: `  mainstem event truncate order-42 --before 8 --dry-run
  mainstem event truncate order-42 --keep 100 --yes`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			f := cmd.Flags()
			if f.Changed("before") == f.Changed("keep") {
				return cli.WrongUsage(cmd, errors.New("want one of --before and --keep"))
			}
			if f.Changed("before") && before == 0 {
				return cli.WrongUsage(cmd, errors.New("--before is 0: versions begin at 1"))
			}
			return m.withStore(cmd, cli.Reading, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				in, err := s.StreamInfo(ctx, a[0])
				if err != nil {
					return err
				}
				if f.Changed("keep") {
					before = uint64(in.Version) + 1 - min(keep, uint64(in.Version))
				}
				return m.truncate(ctx, cmd, s, &in, mainstem.Version(before), &consent)
			})
		},
	}
	cmd.Flags().Uint64Var(&before, "before", 0, "remove the events before this `version`")
	cmd.Flags().Uint64Var(&keep, "keep", 0, "remove all but this `number` of the newest events")
	consent.Add(cmd)
	return cmd
}

func (m commands) truncate(ctx context.Context, cmd *cobra.Command, s *event.Store, in *event.StreamInfo, before mainstem.Version, consent *cli.Consent) error {
	events := uint64(0)
	if in.Count > 0 && before > in.First {
		events = min(uint64(before-in.First), in.Count)
	}
	fields := new(cli.Fields).Add("store", s.Name()).Text("stream", in.Stream).Add("before", before).Add("events", events)
	text := fmt.Sprintf("truncate %s of the store %s before version %d: %s of %d", cli.Printable(in.Stream), s.Name(), before, cli.Plural(events, "event"), in.Count)
	if agreed, _, err := m.Confirm(cmd, consent, cli.Loss{Text: text, Fields: fields}); !agreed {
		return err
	}
	if err := s.Truncate(ctx, in.Stream, before); err != nil {
		return err
	}
	return m.did(fields.Add("truncated", true))
}

func (m commands) newArchive(store *string) *cobra.Command {
	return &cobra.Command{
		Use:   "archive STREAM",
		Short: "Close a stream, and leave it out of lists and feeds",
		Long: `Close a stream: it takes no more events, and lists and feeds leave it out unless they
are called with --archived. Its events stay, and load shows them. mainstem event
unarchive undoes it. A stream without events is not found (exit status 3); one that is
archived already, or tombstoned, is a conflict (4).`,
		Example: `  mainstem event archive order-42`,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withStore(cmd, cli.Reading, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				if err := s.Archive(ctx, a[0]); err != nil {
					return err
				}
				return m.did(new(cli.Fields).Add("store", s.Name()).Text("stream", a[0]).Add("archived", true))
			})
		},
	}
}

func (m commands) newUnarchive(store *string) *cobra.Command {
	return &cobra.Command{
		Use:   "unarchive STREAM",
		Short: "Open an archived stream again",
		Long: `Open an archived stream again. One that is not archived is not found (exit status 3);
one that is tombstoned is a conflict (4).`,
		Example: `  mainstem event unarchive order-42`,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withStore(cmd, cli.Reading, *store, func(ctx context.Context, _ mainstem.Log, s *event.Store) error {
				if err := s.Unarchive(ctx, a[0]); err != nil {
					return err
				}
				return m.did(new(cli.Fields).Add("store", s.Name()).Text("stream", a[0]).Add("archived", false))
			})
		},
	}
}
