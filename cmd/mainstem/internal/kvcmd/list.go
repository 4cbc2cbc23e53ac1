package kvcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/kv"
)

func (m commands) newList() *cobra.Command {
	var q kv.Query
	var count bool
	cmd := &cobra.Command{
		Use:   "list BUCKET",
		Short: "List keys and values in key order",
		Long: `List keys, revisions and values in the order of the keys' bytes, separated by tabs.

With --limit, a last line on standard error (with --json, on standard output)
gives the cursor of the next page, if there is one.`,
		Example: `  mainstem kv list users
  mainstem kv list shop/carts --prefix eu- --keys --limit 100
  mainstem kv list shop/carts --prefix eu- --keys --limit 100 --cursor eu-7431`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withBucket(cmd, cli.Reading, a[0], nil, func(ctx context.Context, _ mainstem.Log, b *bucket) error {
				if count {
					return m.countKeys(ctx, b, &q)
				}
				return m.list(ctx, b, q)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.Prefix, "prefix", "", "only keys that start with this `text`")
	f.StringVar(&q.Suffix, "suffix", "", "only keys that end with this `text`")
	f.StringVar(&q.Start, "start", "", "only keys from this `key` on")
	f.StringVar(&q.End, "end", "", "only keys before this `key`")
	f.StringVar(&q.After, "cursor", "", "only keys after this `key` in the order of the list")
	f.IntVar(&q.Limit, "limit", 0, "at most this `number` of keys (default all)")
	f.IntVar(&q.Offset, "offset", 0, "leave out this `number` of keys first")
	f.BoolVar(&q.Reverse, "reverse", false, "from the last key to the first")
	f.BoolVar(&q.KeysOnly, "keys", false, "keys without values")
	f.BoolVar(&count, "count", false, "only how many keys there are")
	return cmd
}

func (m commands) list(ctx context.Context, b *bucket, q kv.Query) error {
	limit := q.Limit
	q.Limit = cli.OneMore(limit)
	return cli.PrintPage(m.Main, b.List(ctx, &q), limit, func(e *entry) (string, error) {
		return e.Key, m.printListed(b.Name(), e, q.KeysOnly)
	})
}

func (m commands) printListed(bucket string, e *entry, keysOnly bool) error {
	switch {
	case m.Flags.JSON:
		return m.Object(entryFields(bucket, e, !keysOnly))
	case keysOnly:
		return m.Line(cli.Printable(e.Key))
	}
	return m.Line(cli.Printable(e.Key), cli.Number(e.Revision), cli.Printable(e.Value))
}

func (m commands) countKeys(ctx context.Context, b *bucket, q *kv.Query) error {
	n, err := b.Count(ctx, q)
	if err != nil {
		return err
	}
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("bucket", b.Name()).Add("keys", n))
	}
	return m.Line(cli.Number(n))
}
