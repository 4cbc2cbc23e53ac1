// Package kvcmd is the commands of mainstem kv, which work on buckets.
//
//	mainstem kv put users 42 Ada
//	mainstem kv watch users --json
package kvcmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/kv"
)

// commands has a method for each command of the group, and what these share.
type commands struct{ *cli.Main }

// New returns mainstem kv.
func New(program *cli.Main) *cobra.Command {
	m := commands{program}
	c := &cobra.Command{
		Use:   "kv",
		Short: "Key-value buckets",
		Long: `Key-value buckets with revisions, conditions, times to live, history and watches.

A BUCKET is DATABASE/TABLE, or TABLE alone in the database "default". Writing
creates it; reading never does.

The past of a bucket is shown by --at of get and list, and by history.`,
		RunE: cli.Group,
	}
	c.AddCommand(m.newPut(), m.newGet(), m.newList(), m.newDelete(), m.newWatch(), m.newHistory(), m.newImport(), m.newIndex(),
		m.newIncrement(), m.newPurge(), m.newTables(), m.newDrop())
	return c
}

// bucket shows values as bytes: whatever codec a program uses, as stored. It keeps the indexes that were declared here.
type bucket = kv.Indexed[[]byte]

// entry is one revision of a key of a bucket.
type entry = kv.Entry[[]byte]

// withBucket opens the bucket called name in the log of the command line.
func (m commands) withBucket(cmd *cobra.Command, a cli.Access, name string, o *kv.Options, do func(context.Context, mainstem.Log, *bucket) error) error {
	return m.WithLog(cmd, a, func(ctx context.Context, log mainstem.Log) error {
		b, err := kv.OpenIndexed[[]byte](log, name, o)
		if err != nil {
			return err
		}
		return do(ctx, log, b)
	})
}

// tableFlags are the flags of commands that may create a bucket.
type tableFlags struct {
	history int
	ttl     time.Duration
}

func (f *tableFlags) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.ttl, "ttl", 0, "the value expires this `duration` after it is written (default never)")
	cmd.Flags().IntVar(&f.history, "history", 0, "how many revisions of a key are kept, -1 all, if this write creates the bucket (default 1)")
}

func (f *tableFlags) options() *kv.Options { return &kv.Options{History: f.history} }

// conditionFlags are the conditions of one write.
type conditionFlags struct {
	revision uint64
	absent   bool
	exists   bool
}

func (f *conditionFlags) add(cmd *cobra.Command) {
	cmd.Flags().Uint64Var(&f.revision, "if-revision", 0, "only if the key's value has this `revision`")
	cmd.Flags().BoolVar(&f.exists, "if-exists", false, "only if the key has a value")
	cmd.MarkFlagsMutuallyExclusive("if-revision", "if-exists")
}

// condition returns the condition that the flags ask for, and whether they ask for one.
func (f *conditionFlags) condition(cmd *cobra.Command) (c kv.Condition, asked bool) {
	switch {
	case cmd.Flags().Changed("if-revision"):
		return kv.IfRevision(kv.Revision(f.revision)), true
	case f.absent:
		return kv.IfAbsent(), true
	case f.exists:
		return kv.IfExists(), true
	}
	return kv.Condition{}, false
}

func entryFields(bucket string, e *entry, withValue bool) *cli.Fields {
	f := new(cli.Fields).Add("bucket", bucket).Text("key", e.Key).Add("revision", e.Revision).
		Add("position", e.Position).Add("op", e.Op.String()).Time("time", e.Modified).Time("expires", e.Expires).
		Texts("metadata", e.Metadata)
	if withValue && e.Live() {
		f.Bytes("value", e.Value)
	}
	return f
}

// printChange writes one line of a history or watch: op, revision, key, value.
func (m commands) printChange(bucket string, e *entry) error {
	if m.Flags.JSON {
		return m.Object(entryFields(bucket, e, true))
	}
	columns := []string{e.Op.String(), cli.Number(e.Revision), cli.Printable(e.Key)}
	if e.Live() {
		columns = append(columns, cli.Printable(e.Value))
	}
	return m.Line(columns...)
}
