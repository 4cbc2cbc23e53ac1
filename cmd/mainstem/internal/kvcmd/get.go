package kvcmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/kv"
)

func (m commands) newGet() *cobra.Command {
	var raw, info bool
	var revision uint64
	var at cli.Point
	cmd := &cobra.Command{
		Use:   "get BUCKET KEY...",
		Short: "Show the value of a key, or of several",
		Long: `Show the value of a key. A key without a value is not found (exit status 3).

Of several keys it shows key, revision and value as they are at one moment, in the
order given, as list does. Those without a value are left out; the exit status then
is 3, and the error names the first.

--at shows the value that the key had at a position of the log or a time, if the
bucket still keeps it: see --history of mainstem kv put.`,
		Example: `  mainstem kv get users 42
  mainstem kv get users 42 43 44
  mainstem kv get images logo --raw > logo.png
  mainstem kv get users 42 --revision 3 --info
  mainstem kv get users 42 --at 2026-01-02T15:04:05Z`,
		Args: cli.Args(2, -1),
		RunE: func(cmd *cobra.Command, a []string) error {
			if len(a) > 2 && (raw || info || revision != 0 || at.IsSet()) {
				return cli.WrongUsage(cmd, fmt.Errorf("--raw, --info, --revision and --at are for one key, %d are given", len(a)-1))
			}
			return m.withBucket(cmd, cli.Reading, a[0], nil, func(ctx context.Context, _ mainstem.Log, b *bucket) error {
				if len(a) > 2 {
					return m.getMany(ctx, b, a[1:])
				}
				e, err := getEntry(ctx, b, a[1], kv.Revision(revision), &at)
				switch {
				case err != nil:
					return err
				case m.Flags.JSON:
					return m.Object(entryFields(b.Name(), &e, true))
				case info:
					return m.printInfo(&e)
				case raw:
					_, err = m.Out.Write(e.Value)
					return err
				}
				return m.Line(string(e.Value))
			})
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "write the bytes of the value and nothing else, not even a line end")
	cmd.Flags().BoolVar(&info, "info", false, "show revision, times and metadata instead of the value")
	cmd.Flags().Uint64Var(&revision, "revision", 0, "this `revision` instead of the newest, if it is still kept")
	cmd.Flags().Var(&at, "at", "the value at this "+cli.PointUsage+", if it is still kept")
	cmd.MarkFlagsMutuallyExclusive("raw", "info")
	cmd.MarkFlagsMutuallyExclusive("revision", "at")
	return cmd
}

// getMany prints those of keys that have values, and returns NotFound for the first that
// has none.
func (m commands) getMany(ctx context.Context, b *bucket, keys []string) error {
	entries, err := b.GetMany(ctx, keys...)
	if err != nil {
		return err
	}
	var missing error
	for i := range entries {
		e := &entries[i]
		if !e.Live() {
			if missing == nil {
				missing = noValue(b, e.Key)
			}
			continue
		}
		if err := m.printListed(b.Name(), e, false); err != nil {
			return err
		}
	}
	return missing
}

func noValue(b *bucket, key string) error {
	return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "kv get", Space: b.Space(), Key: []byte(key)}
}

func getEntry(ctx context.Context, b *bucket, key string, revision kv.Revision, at *cli.Point) (entry, error) {
	if at.IsSet() {
		return b.At(pointOf(at)).Get(ctx, key)
	}
	if revision == 0 {
		return b.Get(ctx, key)
	}
	e, err := b.GetRevision(ctx, key, revision)
	if err == nil && !e.Live() {
		err = noValue(b, key)
	}
	return e, err
}

func pointOf(p *cli.Point) kv.Point {
	if p.Time.IsZero() {
		return kv.AtPosition(p.Position)
	}
	return kv.AtTime(p.Time)
}

func (m commands) printInfo(e *entry) error {
	lines := [][2]string{
		{"key", cli.Printable(e.Key)},
		{"revision", cli.Number(e.Revision)},
		{"position", cli.Number(e.Position)},
		{"modified", cli.TimeText(e.Modified)},
		{"expires", cli.TimeText(e.Expires)},
		{"bytes", cli.Number(len(e.Value))},
	}
	for _, name := range cli.SortedNames(e.Metadata) {
		lines = append(lines, [2]string{"meta " + cli.Printable(name), cli.Printable(e.Metadata[name])})
	}
	return m.Table(lines)
}

func (m commands) newHistory() *cobra.Command {
	var v mainstem.Versions
	cmd := &cobra.Command{
		Use:   "history BUCKET KEY",
		Short: "Show the revisions of a key that are kept",
		Long: `Show the revisions of a key that are kept, deletions included: operation, revision,
key and value, separated by tabs. How many a bucket keeps is decided when it is
created: see mainstem help kv put.`,
		Example: `  mainstem kv history users 42
  mainstem kv history users 42 --reverse --limit 5 --json`,
		Args: cli.Args(2, 2),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withBucket(cmd, cli.Reading, a[0], nil, func(ctx context.Context, _ mainstem.Log, b *bucket) error {
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
