package main

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

func (m *Main) kvList() *cobra.Command {
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
		Args: args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withBucket(cmd, reading, a[0], nil, func(ctx context.Context, _ mainstem.Log, b *bucket) error {
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

func (m *Main) list(ctx context.Context, b *bucket, q kv.Query) error {
	limit := q.Limit
	if limit > 0 && limit < math.MaxInt {
		q.Limit++ // the one too many tells that there are more
	}
	n, last := 0, ""
	for e, err := range b.List(ctx, &q) {
		if err != nil {
			return err
		}
		if n++; limit > 0 && n > limit {
			return m.printCursor(last)
		}
		last = e.Key
		if err := m.printListed(b.Name(), &e, q.KeysOnly); err != nil {
			return err
		}
	}
	return nil
}

func (m *Main) printListed(bucket string, e *entry, keysOnly bool) error {
	switch {
	case m.flags.json:
		return m.object(entryFields(bucket, e, !keysOnly))
	case keysOnly:
		return m.line(printable([]byte(e.Key)))
	}
	return m.line(printable([]byte(e.Key)), number(e.Revision), printable(e.Value))
}

// printCursor says where the next page begins.
func (m *Main) printCursor(cursor string) error {
	if m.flags.json {
		return m.object(new(fields).text("cursor", cursor))
	}
	if err := m.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(m.Stderr, "more: --cursor %s\n", printable([]byte(cursor)))
	return err
}

func (m *Main) countKeys(ctx context.Context, b *bucket, q *kv.Query) error {
	n, err := b.Count(ctx, q)
	if err != nil {
		return err
	}
	if m.flags.json {
		return m.object(new(fields).add("bucket", b.Name()).add("keys", n))
	}
	return m.line(number(n))
}
