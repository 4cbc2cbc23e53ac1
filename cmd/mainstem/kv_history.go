package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
)

func (m *Main) kvHistory() *cobra.Command {
	var v mainstem.Versions
	cmd := &cobra.Command{
		Use:   "history BUCKET KEY",
		Short: "Show the revisions of a key that are kept",
		Long: `Show the revisions of a key that are kept, deletions included: operation, revision,
key and value, separated by tabs. How many a bucket keeps is decided when it is
created: see mainstem help kv put.`,
		Example: `  mainstem kv history users 42
  mainstem kv history users 42 --reverse --limit 5 --json`,
		Args: args(2, 2),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withBucket(cmd, reading, a[0], nil, func(ctx context.Context, _ mainstem.Log, b *bucket) error {
				n := 0
				for e, err := range b.History(ctx, a[1], v) {
					if err == nil {
						err = m.printChange(b.Name(), &e)
					}
					if err != nil {
						return err
					}
					n++
				}
				if n == 0 {
					return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "kv history", Space: b.Space(), Key: []byte(a[1])}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&v.Reverse, "reverse", false, "newest first")
	cmd.Flags().IntVar(&v.Limit, "limit", 0, "at most this `number` of revisions (default all)")
	return cmd
}
