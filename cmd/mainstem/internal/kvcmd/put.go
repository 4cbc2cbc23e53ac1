package kvcmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/kv"
)

func (m commands) newPut() *cobra.Command {
	var table tableFlags
	var condition conditionFlags
	var meta []string
	cmd := &cobra.Command{
		Use:   "put BUCKET KEY [VALUE|-]",
		Short: "Write the value of a key",
		Long: `Write the value of a key, from the argument or, with - or no VALUE, from standard
input. A condition that does not hold is a conflict (exit status 4).`,
		Example: `  mainstem kv put users 42 '{"name":"Ada"}'
  mainstem kv put shop/carts c-7 --if-revision 3 < cart.json
  mainstem kv put sessions s-1 token --ttl 30m --if-absent --meta user=42`,
		Args: cli.Args(2, 3),
		RunE: func(cmd *cobra.Command, a []string) error {
			metadata, err := cli.Pairs("meta", meta)
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			value, err := m.Input(a, 2)
			if err != nil {
				return err
			}
			opts := []kv.PutOption{kv.TTL(table.ttl), kv.Metadata(metadata)}
			c, asked := condition.condition(cmd)
			if asked {
				opts = append(opts, c)
			}
			return m.withBucket(cmd, cli.Writing, a[0], table.options(), func(ctx context.Context, log mainstem.Log, b *bucket) error {
				return m.commitOne(ctx, log, b, a[1], asked, func(batch *mainstem.Batch) error {
					return b.PutTo(ctx, batch, a[1], value, opts...)
				})
			})
		},
	}
	table.add(cmd)
	condition.add(cmd)
	cmd.Flags().BoolVar(&condition.absent, "if-absent", false, "only if the key has no value")
	cmd.MarkFlagsMutuallyExclusive("if-revision", "if-absent")
	cmd.MarkFlagsMutuallyExclusive("if-exists", "if-absent")
	cmd.Flags().StringArrayVar(&meta, "meta", nil, "`NAME=VALUE` that is kept with the value; may be repeated")
	return cmd
}

// tries is how often a write is tried that depends on what it read, where others write the same key.
const tries = 20

// commitOne commits a batch whose first write is that of key, and shows what it became. Without a condition of the
// user it is made anew if what it read, to keep an index, has changed.
func (m commands) commitOne(ctx context.Context, log mainstem.Log, b *bucket, key string, condition bool, fill func(*mainstem.Batch) error) error {
	r, err := commit(ctx, log, !condition, fill)
	if err != nil {
		return err
	}
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("bucket", b.Name()).Text("key", key).
			Add("revision", r.Versions[0]).Add("position", r.Last).Time("time", r.Time))
	}
	return m.Line("revision", cli.Number(r.Versions[0]))
}

// commit commits what fill puts into a batch, if again is set also after a Conflict.
func commit(ctx context.Context, log mainstem.Log, again bool, fill func(*mainstem.Batch) error) (r mainstem.Receipt, err error) {
	for range tries {
		batch := mainstem.NewBatch()
		if err = fill(batch); err != nil {
			return r, err
		}
		if r, err = log.Commit(ctx, batch); err == nil || !again || !errors.Is(err, mainstem.ErrConflict) {
			return r, err
		}
	}
	return r, err
}

func (m commands) newDelete() *cobra.Command {
	var condition conditionFlags
	var consent cli.Consent
	var purge bool
	cmd := &cobra.Command{
		Use:   "delete BUCKET KEY",
		Short: "Delete a key",
		Long: `Delete a key. Deleting a key that has no value is no error, unless a condition
demands one. With --purge it is mainstem kv purge, which also removes the key's history:
only then something is asked, and --dry-run and --yes are allowed.

` + cli.ConsentHelp,
		Example: `  mainstem kv delete users 42
  mainstem kv delete users 42 --if-revision 7
  mainstem kv delete users 42 --purge --yes`,
		Args: cli.Args(2, 2),
		RunE: func(cmd *cobra.Command, a []string) error {
			if !purge && (consent.DryRun || consent.Yes) {
				return cli.WrongUsage(cmd, errors.New("--dry-run and --yes go with --purge: nothing is asked without it"))
			}
			var opts []kv.DeleteOption
			if c, asked := condition.condition(cmd); asked {
				opts = append(opts, c)
			}
			// A bucket that does not exist is not created in order to delete from it.
			return m.withBucket(cmd, cli.Reading, a[0], nil, func(ctx context.Context, _ mainstem.Log, b *bucket) error {
				if purge {
					return m.purge(ctx, cmd, b, a[1], &consent, opts)
				}
				if err := b.Delete(ctx, a[1], opts...); err != nil {
					return err
				}
				return m.Deleted(new(cli.Fields).Add("bucket", b.Name()).Text("key", a[1]))
			})
		},
	}
	condition.add(cmd)
	cmd.Flags().BoolVar(&purge, "purge", false, "also remove the key's history")
	consent.Add(cmd)
	return cmd
}
