package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

func (m *Main) kvPut() *cobra.Command {
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
		Args: args(2, 3),
		RunE: func(cmd *cobra.Command, a []string) error {
			metadata, err := pairs("meta", meta)
			if err != nil {
				return usageError{cmd, err}
			}
			value, err := m.input(a, 2)
			if err != nil {
				return err
			}
			opts := []kv.PutOption{kv.TTL(table.ttl), kv.Metadata(metadata)}
			if c, asked := condition.condition(cmd); asked {
				opts = append(opts, c)
			}
			return m.withBucket(cmd, writing, a[0], table.options(), func(ctx context.Context, log mainstem.Log, b *bucket) error {
				batch := mainstem.NewBatch()
				b.PutTo(batch, a[1], value, opts...)
				return m.commitOne(ctx, log, b, batch, a[1])
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

// commitOne commits the batch of one write to key and shows what it became.
func (m *Main) commitOne(ctx context.Context, log mainstem.Log, b *bucket, batch *mainstem.Batch, key string) error {
	r, err := log.Commit(ctx, batch)
	if err != nil {
		return err
	}
	if m.flags.json {
		return m.object(new(fields).add("bucket", b.Name()).text("key", key).
			add("revision", r.Versions[0]).add("position", r.Last).time("time", r.Time))
	}
	return m.line("revision", number(r.Versions[0]))
}
