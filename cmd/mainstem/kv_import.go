package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/rows"
	"github.com/mainstemdev/mainstem/kv"
)

func (m *Main) kvImport() *cobra.Command {
	var table tableFlags
	var o importOptions
	var key, value string
	cmd := &cobra.Command{
		Use:   "import BUCKET FILE|-",
		Short: "Write one value for each line of a file",
		Long: `Write one value for each line of a file. --key makes the key of a line, --value its
value; without --value that is the whole line (a CSV row as a JSON object).
` + importHelp,
		Example: `  mainstem kv import users users.csv --key '{{.id}}'
  mainstem kv import names users.jsonl --key '{{.id}}' --value '{{.first}} {{.last}}'
  zcat events.jsonl.gz | mainstem kv import last-seen - --key '{{.user}}' --value '{{.time}}'`,
		Args: args(2, 2),
		RunE: func(cmd *cobra.Command, a []string) error {
			target, ro, err := kvTarget(a[1], key, value, &o)
			if err != nil {
				return usageError{cmd, err}
			}
			return m.withBucket(cmd, writing, a[0], table.options(), func(ctx context.Context, log mainstem.Log, b *bucket) error {
				target.log, target.bucket, target.ttl = log, b, table.ttl
				return runImport(ctx, m, a[1], o, ro, target)
			})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "`template` of the key (required)")
	cmd.Flags().StringVar(&value, "value", "", "`template` of the value (default the whole line)")
	table.add(cmd)
	o.add(cmd)
	return cmd
}

// kvRows writes rows into a bucket.
type kvRows struct {
	log    mainstem.Log
	bucket *bucket
	ttl    time.Duration
	key    *rows.Template
	value  *rows.Template // nil: the whole line
}

// kvRow is what is written for one row.
type kvRow struct {
	key   string
	value []byte
}

func kvTarget(file, key, value string, o *importOptions) (t *kvRows, ro rows.Options, err error) {
	if ro, err = o.rows(file); err != nil {
		return nil, ro, err
	}
	t = &kvRows{}
	if t.key, err = requiredTemplate("--key", key); err != nil {
		return nil, ro, err
	}
	t.value, err = optionalTemplate("--value", value)
	return t, ro, err
}

func (t *kvRows) prepare(row rows.Row) (kvRow, int, error) {
	key, err := t.key.Execute(row)
	if err == nil {
		err = mainstem.ValidateKey(key)
	}
	if err != nil {
		return kvRow{}, 0, err
	}
	value, err := wholeLineOr(t.value, row)
	return kvRow{string(key), value}, len(key) + len(value), err
}

func (t *kvRows) commit(ctx context.Context, id string, items []kvRow) (int, error) {
	b := mainstem.NewBatch()
	b.ID = id
	for i := range items {
		t.bucket.PutTo(b, items[i].key, items[i].value, kv.TTL(t.ttl))
	}
	if _, err := t.log.Commit(ctx, b); err != nil {
		return 0, err
	}
	return len(items), nil
}
