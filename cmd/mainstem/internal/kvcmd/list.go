package kvcmd

import (
	"context"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/kv"
)

func (m commands) newList() *cobra.Command {
	var q kv.Query
	var count bool
	var by string
	var at cli.Point
	cmd := &cobra.Command{
		Use:   "list BUCKET",
		Short: "List keys and values in key order",
		Long: `List keys, revisions and values in the order of the keys' bytes, separated by tabs.

With --limit, a last line on standard error (with --json, on standard output)
gives the cursor of the next page, if there is one.

--by lists in the order of an index (see mainstem help kv index): of all its values,
or of one, as in --by email=ada@example.org. A value is a number, true, false, null,
or a text, in double quotes if it looks like one of the others; --prefix is of texts.
--at lists what was there at a position of the log or a time, as far as it is kept.`,
		Example: `  mainstem kv list users
  mainstem kv list shop/carts --prefix eu- --keys --limit 100
  mainstem kv list shop/carts --prefix eu- --keys --limit 100 --cursor eu-7431
  mainstem kv list users --by email=ada@example.org
  mainstem kv list users --by age --start 30 --reverse --limit 10
  mainstem kv list users --at 1234`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withBucket(cmd, cli.Reading, a[0], nil, func(ctx context.Context, _ mainstem.Log, b *bucket) error {
				switch {
				case by != "":
					return m.listBy(ctx, b, by, q, count)
				case at.IsSet():
					return m.listAt(ctx, b.At(pointOf(&at)), b.Name(), q)
				case count:
					return m.countKeys(b, func() (int64, error) { return b.Count(ctx, &q) })
				}
				return m.list(b.List(ctx, oneMore(&q)), b.Name(), q)
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
	f.StringVar(&by, "by", "", "in the order of this `INDEX`, or only those with INDEX=VALUE")
	f.Var(&at, "at", "as it was at this "+cli.PointUsage+", as far as that is still kept")
	cmd.MarkFlagsMutuallyExclusive("by", "at")
	for _, other := range []string{"suffix", "offset"} {
		cmd.MarkFlagsMutuallyExclusive("by", other)
	}
	cmd.MarkFlagsMutuallyExclusive("count", "at")
	return cmd
}

// oneMore returns q for one entry more than its limit, which tells whether there is a next page.
func oneMore(q *kv.Query) *kv.Query {
	more := *q
	more.Limit = cli.OneMore(q.Limit)
	return &more
}

func (m commands) list(seq iter.Seq2[entry, error], bucket string, q kv.Query) error {
	return cli.PrintPage(m.Main, seq, q.Limit, func(e *entry) (string, error) {
		return e.Key, m.printListed(bucket, e, q.KeysOnly)
	})
}

func (m commands) listAt(ctx context.Context, past *kv.Past[[]byte], bucket string, q kv.Query) error {
	return m.list(past.List(ctx, oneMore(&q)), bucket, q)
}

// listBy lists by an index, or counts. Keys of q are then values of the index.
func (m commands) listBy(ctx context.Context, b *bucket, by string, q kv.Query, count bool) error {
	name, value, one := strings.Cut(by, "=")
	i := &kv.IndexQuery{Reverse: q.Reverse, Limit: q.Limit, After: q.After}
	if one {
		i.Prefix = []kv.Part{kv.ParsePart(value)}
	}
	if q.Prefix != "" {
		i.Prefix = append(i.Prefix, kv.TextPrefix(q.Prefix))
	}
	if q.Start != "" {
		i.Start = []kv.Part{kv.ParsePart(q.Start)}
	}
	if q.End != "" {
		i.End = []kv.Part{kv.ParsePart(q.End)}
	}
	if count {
		return m.countKeys(b, func() (int64, error) { return b.By(name).Count(ctx, i) })
	}
	if q.Limit == 0 {
		return m.list(b.By(name).List(ctx, i), b.Name(), q)
	}
	entries, next, err := b.By(name).Page(ctx, i)
	if err != nil {
		return err
	}
	for j := range entries {
		if err := m.printListed(b.Name(), &entries[j], q.KeysOnly); err != nil {
			return err
		}
	}
	if next == "" {
		return nil
	}
	return m.PrintCursor(next)
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

func (m commands) countKeys(b *bucket, count func() (int64, error)) error {
	n, err := count()
	if err != nil {
		return err
	}
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("bucket", b.Name()).Add("keys", n))
	}
	return m.Line(cli.Number(n))
}
