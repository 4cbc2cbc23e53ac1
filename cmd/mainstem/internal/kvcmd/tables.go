package kvcmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/kv"
)

func (m commands) newTables() *cobra.Command {
	return &cobra.Command{
		Use:   "tables [DATABASE]",
		Short: "List the buckets of a database, or all",
		Long: `List the buckets of a database, or all: name, keys, bytes before compression, and
what the bucket keeps. Keys that were deleted count as long as
their tombstones are kept. --json has more. Indexes are not counted: see
mainstem kv index list.`,
		Example: `  mainstem kv tables
  mainstem kv tables shop --json`,
		Args: cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			database := strings.Join(a, "")
			if len(a) > 0 && database == "" {
				return cli.WrongUsage(cmd, fmt.Errorf("the name of the database is empty"))
			}
			return m.WithLog(cmd, cli.Reading, func(ctx context.Context, log mainstem.Log) error {
				list := m.NewList("bucket", "keys", "bytes", "keeps")
				for t, err := range kv.Tables(ctx, log, database) {
					if err == nil {
						err = m.printTable(list, &t)
					}
					if err != nil {
						return list.End(err)
					}
				}
				return list.End(nil)
			})
		},
	}
}

func (m commands) printTable(list *cli.List, t *kv.Table) error {
	name, s := t.Database+"/"+t.Name, &t.Space
	if !m.Flags.JSON {
		return list.Row(name, cli.Number(s.Keys), cli.Number(s.Bytes), cli.PolicyText(&s.Policy))
	}
	f := new(cli.Fields).Add("bucket", name).Add("keys", s.Keys).Add("records", s.Records).Add("bytes", s.Bytes).
		Add("last", s.Last).Time("created", s.Created).Time("updated", s.Updated)
	cli.AddPolicy(f, &s.Policy)
	cli.Opt(f, "codec", t.Codec)
	return m.Object(f)
}

func (m commands) newDrop() *cobra.Command {
	var consent cli.Consent
	cmd := &cobra.Command{
		Use:   "drop BUCKET",
		Short: "Remove a bucket with all that it holds",
		Long: `Remove a bucket with its keys, their history and its indexes. Nothing brings it back
but a backup. A bucket that is not there is not found (exit status 3).

` + cli.ConsentHelp,
		Example: `  mainstem kv drop shop/carts --dry-run
  mainstem kv drop shop/carts --yes`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withBucket(cmd, cli.Reading, a[0], nil, func(ctx context.Context, log mainstem.Log, b *bucket) error {
				return m.drop(ctx, cmd, log, b, &consent)
			})
		},
	}
	consent.Add(cmd)
	return cmd
}

func (m commands) drop(ctx context.Context, cmd *cobra.Command, log mainstem.Log, b *bucket, consent *cli.Consent) error {
	s, err := log.Space(ctx, b.Space())
	if err != nil {
		return err
	}
	indexes, err := kv.Indexes(ctx, log, b.Database(), b.Table())
	if err != nil {
		return err
	}
	fields := new(cli.Fields).Add("bucket", b.Name()).Add("keys", s.Keys).Add("records", s.Records).Add("bytes", s.Bytes).Add("indexes", len(indexes))
	text := fmt.Sprintf("drop %s: %s, %s", b.Name(), cli.Plural(s.Keys, "key"), cli.Plural(s.Bytes, "byte"))
	if len(indexes) == 1 {
		text += ", 1 index"
	} else if len(indexes) > 1 {
		text += fmt.Sprintf(", %d indexes", len(indexes))
	}
	if agreed, _, err := m.Confirm(cmd, consent, cli.Loss{Text: text, Fields: fields}); !agreed {
		return err
	}
	if err := kv.DropTable(ctx, log, b.Database(), b.Table()); err != nil {
		return err
	}
	return m.Deleted(fields)
}

func (m commands) newPurge() *cobra.Command {
	var condition conditionFlags
	var consent cli.Consent
	cmd := &cobra.Command{
		Use:   "purge BUCKET KEY",
		Short: "Delete a key together with its history",
		Long: `Delete a key together with its history, also if it was deleted before: then only the
tombstone is left. Purging a key that is not there is no error, unless a condition
demands a value.

` + cli.ConsentHelp,
		Example: `  mainstem kv purge users 42 --dry-run
  mainstem kv purge users 42 --if-revision 7 --yes`,
		Args: cli.Args(2, 2),
		RunE: func(cmd *cobra.Command, a []string) error {
			var opts []kv.DeleteOption
			if c, asked := condition.condition(cmd); asked {
				opts = append(opts, c)
			}
			return m.withBucket(cmd, cli.Reading, a[0], nil, func(ctx context.Context, _ mainstem.Log, b *bucket) error {
				return m.purge(ctx, cmd, b, a[1], &consent, opts)
			})
		},
	}
	condition.add(cmd)
	consent.Add(cmd)
	return cmd
}

func (m commands) purge(ctx context.Context, cmd *cobra.Command, b *bucket, key string, consent *cli.Consent, opts []kv.DeleteOption) error {
	revisions, size := 0, 0
	for e, err := range b.History(ctx, key, mainstem.Versions{}) {
		if err != nil {
			return err
		}
		revisions++
		size += len(e.Value)
	}
	fields := new(cli.Fields).Add("bucket", b.Name()).Text("key", key).Add("revisions", revisions).Add("bytes", size)
	text := fmt.Sprintf("purge %s of %s: %s, values of %s", cli.Printable(key), b.Name(), cli.Plural(revisions, "revision"), cli.Plural(size, "byte"))
	if agreed, _, err := m.Confirm(cmd, consent, cli.Loss{Text: text, Fields: fields}); !agreed {
		return err
	}
	if err := b.Purge(ctx, key, opts...); err != nil {
		return err
	}
	return m.Deleted(fields)
}
