package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

func (m *Main) kvDelete() *cobra.Command {
	var condition conditionFlags
	var purge bool
	cmd := &cobra.Command{
		Use:   "delete BUCKET KEY",
		Short: "Delete a key",
		Long: `Delete a key. Deleting a key that has no value is no error, unless a condition
demands one.`,
		Example: `  mainstem kv delete users 42
  mainstem kv delete users 42 --if-revision 7
  mainstem kv delete users 42 --purge`,
		Args: args(2, 2),
		RunE: func(cmd *cobra.Command, a []string) error {
			// A bucket that does not exist is not created in order to delete from it.
			return m.withBucket(cmd, reading, a[0], nil, func(ctx context.Context, _ mainstem.Log, b *bucket) error {
				do := b.Delete
				if purge {
					do = b.Purge
				}
				var opts []kv.DeleteOption
				if c, asked := condition.condition(cmd); asked {
					opts = append(opts, c)
				}
				if err := do(ctx, a[1], opts...); err != nil {
					return err
				}
				if m.flags.json {
					return m.object(new(fields).add("bucket", b.Name()).text("key", a[1]).add("deleted", true))
				}
				return nil
			})
		},
	}
	condition.add(cmd)
	cmd.Flags().BoolVar(&purge, "purge", false, "also remove the key's history")
	return cmd
}
