package kvcmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/importer"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/rows"
	"github.com/mainstemdev/mainstem/kv"
)

func (m commands) newImport() *cobra.Command {
	var table tableFlags
	var o importer.Options
	var key, value string
	cmd := &cobra.Command{
		Use:   "import BUCKET FILE|-",
		Short: "Write one value for each line of a file",
		Long: `Write one value for each line of a file. --key makes the key of a line, --value its
value; without --value that is the whole line (a CSV row as a JSON object).
` + importer.Help,
		Example: `  mainstem kv import users users.csv --key '{{.id}}'
  mainstem kv import names users.jsonl --key '{{.id}}' --value '{{.first}} {{.last}}'
  zcat events.jsonl.gz | mainstem kv import last-seen - --key '{{.user}}' --value '{{.time}}'`,
		Args: cli.Args(2, 2),
		RunE: func(cmd *cobra.Command, a []string) error {
			target, ro, err := newRows(a[1], key, value, &o)
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			return m.withBucket(cmd, cli.Writing, a[0], table.options(), func(ctx context.Context, log mainstem.Log, b *bucket) error {
				target.log, target.bucket, target.ttl = log, b, table.ttl
				return importer.Run(ctx, m.Main, a[1], o, ro, target)
			})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "`template` of the key (required)")
	cmd.Flags().StringVar(&value, "value", "", "`template` of the value (default the whole line)")
	table.add(cmd)
	o.Add(cmd)
	return cmd
}

// bucketRows writes rows into a bucket.
type bucketRows struct {
	log    mainstem.Log
	bucket *bucket
	ttl    time.Duration
	key    *rows.Template
	value  *rows.Template // nil: the whole line
}

// bucketRow is what is written for one row.
type bucketRow struct {
	key   string
	value []byte
}

func newRows(file, key, value string, o *importer.Options) (t *bucketRows, ro rows.Options, err error) {
	if ro, err = o.Rows(file); err != nil {
		return nil, ro, err
	}
	t = &bucketRows{}
	if t.key, err = importer.RequiredTemplate("--key", key); err != nil {
		return nil, ro, err
	}
	t.value, err = importer.OptionalTemplate("--value", value)
	return t, ro, err
}

func (t *bucketRows) Prepare(row rows.Row) (bucketRow, int, error) {
	key, err := t.key.Execute(row)
	if err == nil {
		err = mainstem.ValidateKey(key)
	}
	if err != nil {
		return bucketRow{}, 0, err
	}
	value, err := importer.WholeLineOr(t.value, row)
	return bucketRow{string(key), value}, len(key) + len(value), err
}

func (t *bucketRows) Commit(ctx context.Context, id string, items []bucketRow) (int, error) {
	pairs := make([]kv.Pair[[]byte], len(items))
	for i := range items {
		pairs[i] = kv.Pair[[]byte]{Key: items[i].key, Value: items[i].value}
	}
	_, err := commit(ctx, t.log, true, func(b *mainstem.Batch) error {
		b.ID = id
		return t.bucket.PutManyTo(ctx, b, pairs, kv.TTL(t.ttl))
	})
	if err != nil {
		return 0, err
	}
	return len(items), nil
}
