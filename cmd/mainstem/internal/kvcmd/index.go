package kvcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/kv"
)

func (m commands) newIndex() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "index",
		Short: "Indexes of buckets",
		Long: `Indexes of buckets. An index is over a field of values that are JSON; values without
the field are not in it. Every write keeps it, in the commit of the value; programs
that open the bucket without its indexes can no longer write to it (in Go:
kv.OpenIndexed). Indexes that a program declared by a function are listed and
dropped here, and are read by mainstem kv list --by; only the program can keep them.`,
		RunE: cli.Group,
	}
	cmd.AddCommand(m.newIndexAdd(), m.newIndexList(), m.newIndexRebuild(), m.newIndexDrop(), m.newIndexCheck())
	return cmd
}

func (m commands) newIndexAdd() *cobra.Command {
	var i kv.Index[[]byte]
	cmd := &cobra.Command{
		Use:   "add BUCKET INDEX",
		Short: "Add an index over a field, and build it",
		Long: `Add an index over a field of values that are JSON, and build it. Others may write
meanwhile, and keep it. If the build is interrupted, the same command goes on. In a
unique index no two keys have the same value; if two have it already, the build ends
with an error that names them (exit status 4), and goes on when one was changed.`,
		Example: `  mainstem kv index add users email --field email --unique
  mainstem kv index add users city --field address.city`,
		Args: cli.Args(2, 2),
		RunE: func(cmd *cobra.Command, a []string) error {
			if i.Name = a[1]; i.Field == "" {
				return cli.WrongUsage(cmd, errors.New("--field is required"))
			}
			return m.WithLog(cmd, cli.Reading, func(ctx context.Context, log mainstem.Log) error {
				b, err := kv.OpenIndexed(log, a[0], nil, i)
				if err != nil {
					return err
				}
				if _, err := log.Space(ctx, b.Space()); err != nil {
					return err
				}
				if err := b.Build(ctx); err != nil {
					return err
				}
				return m.listIndexes(ctx, log, b, a[1])
			})
		},
	}
	cmd.Flags().StringVar(&i.Field, "field", "", "`path` of the field, such as email or address.city (required)")
	cmd.Flags().BoolVar(&i.Unique, "unique", false, "no two keys may have the same value")
	cmd.Flags().Uint32Var(&i.Version, "version", 0, "`version` of the definition; a higher one replaces it")
	return cmd
}

func (m commands) newIndexList() *cobra.Command {
	return &cobra.Command{
		Use:   "list BUCKET",
		Short: "List the indexes of a bucket",
		Long: `List the indexes of a bucket: name, state, unique or not, field, version, and while
it is being built how many keys of how many are done.`,
		Example: `  mainstem kv index list users --json`,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withBucket(cmd, cli.Reading, a[0], nil, func(ctx context.Context, log mainstem.Log, b *bucket) error {
				return m.listIndexes(ctx, log, b, "")
			})
		},
	}
}

// listIndexes prints the indexes of b, only the one called only unless that is "".
func (m commands) listIndexes(ctx context.Context, log mainstem.Log, b *bucket, only string) error {
	infos, err := kv.Indexes(ctx, log, b.Database(), b.Table())
	if err != nil {
		return err
	}
	for i := range infos {
		if only == "" || infos[i].Name == only {
			if err := m.printIndex(b.Name(), &infos[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m commands) printIndex(bucket string, i *kv.IndexInfo) error {
	if m.Flags.JSON {
		f := new(cli.Fields).Add("bucket", bucket).Add("index", i.Name).Add("state", i.State).Add("unique", i.Unique)
		if i.Field != "" {
			f.Add("field", i.Field)
		}
		f.Add("version", i.Version).Add("space", i.Space)
		if i.State == kv.IndexBuilding {
			f.Add("done", i.Done).Add("total", i.Total)
		}
		return m.Object(f)
	}
	unique, field, progress := "-", i.Field, ""
	if i.Unique {
		unique = "unique"
	}
	if field == "" {
		field = "-" // of a program
	}
	if i.State == kv.IndexBuilding {
		progress = fmt.Sprintf("%d of %d", i.Done, i.Total)
	}
	return m.Line(i.Name, string(i.State), unique, field, cli.Number(uint64(i.Version)), progress)
}

func (m commands) newIndexRebuild() *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild BUCKET INDEX",
		Short: "Build an index anew",
		Long: `Drop the entries of an index and build it anew, while others write. Until that is
done, the index cannot be read. The indexes of the bucket must all be over fields.`,
		Example: `  mainstem kv index rebuild users email`,
		Args:    cli.Args(2, 2),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withBucket(cmd, cli.Reading, a[0], nil, func(ctx context.Context, log mainstem.Log, b *bucket) error {
				if err := b.Rebuild(ctx, a[1]); err != nil {
					return err
				}
				return m.listIndexes(ctx, log, b, a[1])
			})
		},
	}
}

func (m commands) newIndexDrop() *cobra.Command {
	return &cobra.Command{
		Use:   "drop BUCKET INDEX",
		Short: "Remove an index",
		Long: `Remove an index with its entries. A program that declares it builds it anew when it
next writes.`,
		Example: `  mainstem kv index drop users email`,
		Args:    cli.Args(2, 2),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withBucket(cmd, cli.Reading, a[0], nil, func(ctx context.Context, log mainstem.Log, b *bucket) error {
				if err := kv.DropIndex(ctx, log, b.Database(), b.Table(), a[1]); err != nil {
					return err
				}
				return m.Deleted(new(cli.Fields).Add("bucket", b.Name()).Add("index", a[1]))
			})
		},
	}
}

func (m commands) newIndexCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check BUCKET",
		Short: "Compare the indexes of a bucket with its values",
		Long: `Compare the indexes of a bucket with its values, in both directions. Each difference
is a line; if there is one, the exit status is 1. Only writes to the raw log, past
buckets, make differences; mainstem kv index rebuild mends them.`,
		Example: `  mainstem kv index check users`,
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.withBucket(cmd, cli.Reading, a[0], nil, func(ctx context.Context, _ mainstem.Log, b *bucket) error {
				problems := 0
				var failed error
				done, err := b.Check(ctx, func(p kv.IndexProblem) {
					problems++
					failed = m.printProblem(&p, failed)
				})
				if err == nil {
					err = failed
				}
				if err == nil {
					err = m.printChecked(done, problems)
				}
				if err == nil && problems > 0 {
					err = mainstem.Errorf(mainstem.KindCorrupt, "kv index check", "%d differences", problems).
						WithHint("mainstem kv index rebuild " + b.Name() + " INDEX")
				}
				return err
			})
		},
	}
}

func (m commands) printProblem(p *kv.IndexProblem, failed error) error {
	switch {
	case failed != nil:
		return failed
	case m.Flags.JSON:
		return m.Object(new(cli.Fields).Add("index", p.Index).Text("key", p.Key).Add("problem", p.What))
	}
	return m.Line("problem", p.Index, cli.Printable(p.Key), cli.Printable(p.What))
}

func (m commands) printChecked(done kv.CheckedIndexes, problems int) error {
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("ok", problems == 0).Add("problems", problems).Add("values", done.Values).Add("entries", done.Entries))
	}
	return m.Line("checked", cli.Number(done.Values)+" values", cli.Number(done.Entries)+" entries")
}
