package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

func (m *Main) kvGet() *cobra.Command {
	var raw, info bool
	var revision uint64
	cmd := &cobra.Command{
		Use:   "get BUCKET KEY",
		Short: "Show the value of a key",
		Long:  `Show the value of a key. A key without a value is not found (exit status 3).`,
		Example: `  mainstem kv get users 42
  mainstem kv get images logo --raw > logo.png
  mainstem kv get users 42 --revision 3 --info`,
		Args: args(2, 2),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withBucket(cmd, reading, a[0], nil, func(ctx context.Context, _ mainstem.Log, b *bucket) error {
				e, err := getEntry(ctx, b, a[1], kv.Revision(revision))
				switch {
				case err != nil:
					return err
				case m.flags.json:
					return m.object(entryFields(b.Name(), &e, true))
				case info:
					return m.printInfo(&e)
				case raw:
					_, err = m.out.Write(e.Value)
					return err
				}
				return m.line(string(e.Value))
			})
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "write the bytes of the value and nothing else, not even a line end")
	cmd.Flags().BoolVar(&info, "info", false, "show revision, times and metadata instead of the value")
	cmd.Flags().Uint64Var(&revision, "revision", 0, "this `revision` instead of the newest, if it is still kept")
	cmd.MarkFlagsMutuallyExclusive("raw", "info")
	return cmd
}

func getEntry(ctx context.Context, b *bucket, key string, revision kv.Revision) (entry, error) {
	if revision == 0 {
		return b.Get(ctx, key)
	}
	e, err := b.GetRevision(ctx, key, revision)
	if err == nil && !e.Live() {
		err = &mainstem.Error{Kind: mainstem.KindNotFound, Op: "kv get", Space: b.Space(), Key: []byte(key)}
	}
	return e, err
}

func (m *Main) printInfo(e *entry) error {
	lines := [][2]string{
		{"key", printable([]byte(e.Key))},
		{"revision", number(e.Revision)},
		{"position", number(e.Position)},
		{"modified", timeText(e.Modified)},
		{"expires", timeText(e.Expires)},
		{"bytes", number(len(e.Value))},
	}
	for _, name := range sortedNames(e.Metadata) {
		lines = append(lines, [2]string{"meta " + printable([]byte(name)), printable([]byte(e.Metadata[name]))})
	}
	return m.table(lines)
}
