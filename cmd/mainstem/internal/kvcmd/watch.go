package kvcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/kv"
)

func (m commands) newWatch() *cobra.Command {
	var o kv.WatchOptions
	var from uint64
	var until bool
	var limit int
	cmd := &cobra.Command{
		Use:   "watch BUCKET",
		Short: "Show values and then every change as it happens",
		Long: `Show the current values, then a line "synced", then every change as it happens:
operation, revision, key and value, separated by tabs. It ends when interrupted.

Every change has a position (see --json); --from goes on after it.`,
		Example: `  mainstem kv watch users --prefix eu-
  mainstem kv watch users --updates-only --json
  mainstem kv watch users --from 1234 --json`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			o.After = mainstem.Position(from)
			// The bucket may come into being later, a directory may not.
			return m.withBucket(cmd, cli.Reading, a[0], nil, func(ctx context.Context, _ mainstem.Log, b *bucket) error {
				return cli.UnlessInterrupted(ctx, m.watch(ctx, b, &o, until, limit))
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Prefix, "prefix", "", "only keys that start with this `text`")
	f.Uint64Var(&from, "from", 0, "changes after this `position`, instead of the current values")
	f.BoolVar(&o.UpdatesOnly, "updates-only", false, "leave out the current values")
	f.BoolVar(&o.History, "history", false, "begin with all revisions that are kept, instead of the current values")
	f.BoolVar(&o.IgnoreDeletes, "ignore-deletes", false, "leave out deletions")
	f.BoolVar(&until, "until-synced", false, "end when everything that is there has been shown")
	f.IntVar(&limit, "limit", 0, "end after this `number` of changes (default never)")
	return cmd
}

func (m commands) watch(ctx context.Context, b *bucket, o *kv.WatchOptions, untilSynced bool, limit int) error {
	n := 0
	for e, err := range b.Watch(ctx, o) {
		if err != nil {
			return err
		}
		if e.Op == kv.OpSynced {
			if untilSynced {
				return nil
			}
			err = m.printSynced(b.Name(), e.Position)
		} else {
			n++
			err = m.printChange(b.Name(), &e)
		}
		if err == nil {
			err = m.Flush()
		}
		if err != nil || limit > 0 && n >= limit {
			return err
		}
	}
	return nil
}

func (m commands) printSynced(bucket string, p mainstem.Position) error {
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("bucket", bucket).Add("position", p).Add("op", kv.OpSynced.String()))
	}
	return m.Line(kv.OpSynced.String())
}
