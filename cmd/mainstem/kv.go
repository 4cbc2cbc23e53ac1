package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

func (m *Main) kv() *cobra.Command {
	c := &cobra.Command{
		Use:   "kv",
		Short: "Key-value buckets",
		Long: `Key-value buckets with revisions, conditions, times to live, history and watches.

A BUCKET is DATABASE/TABLE, or TABLE alone in the database "default". Writing
creates it; reading never does.`,
		RunE: group,
	}
	c.AddCommand(m.kvPut(), m.kvGet(), m.kvList(), m.kvDelete(), m.kvWatch(), m.kvHistory(), m.kvImport())
	return c
}

// bucket shows values as bytes: whatever codec a program uses, as stored.
type bucket = kv.Bucket[[]byte]

// entry is one revision of a key of a bucket.
type entry = kv.Entry[[]byte]

// withBucket opens the bucket called name in the log of the command line.
func (m *Main) withBucket(cmd *cobra.Command, a access, name string, o *kv.Options, do func(context.Context, mainstem.Log, *bucket) error) error {
	return m.withLog(cmd, a, func(ctx context.Context, log mainstem.Log) error {
		b, err := kv.Open[[]byte](log, name, o)
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

// pairs reads "name=value" flags.
func pairs(flag string, given []string) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(given))
	for _, p := range given {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("--%s %q: want NAME=VALUE", flag, p)
		}
		if _, ok := out[k]; ok {
			return nil, fmt.Errorf("--%s: %s is given twice", flag, k)
		}
		out[k] = v
	}
	return out, nil
}

// maxInput bounds a value that is read whole from standard input, in bytes. The
// log has a limit of its own, which is lower unless it was raised.
const maxInput = 256 << 20

// input returns the argument at position i, or standard input if it is "-" or
// not there.
func (m *Main) input(args []string, i int) ([]byte, error) {
	if i < len(args) && args[i] != "-" {
		return []byte(args[i]), nil
	}
	b, err := io.ReadAll(io.LimitReader(m.Stdin, maxInput+1))
	if err == nil && len(b) > maxInput {
		err = fmt.Errorf("standard input is larger than %d bytes", maxInput)
	}
	return b, err
}

func entryFields(bucket string, e *entry, withValue bool) *fields {
	f := new(fields).add("bucket", bucket).text("key", e.Key).add("revision", e.Revision).
		add("position", e.Position).add("op", e.Op.String()).time("time", e.Modified).time("expires", e.Expires)
	if len(e.Metadata) > 0 {
		f.add("metadata", e.Metadata)
	}
	if withValue && e.Live() {
		f.bytes("value", e.Value)
	}
	return f
}

// printChange writes one line of a history or watch: op, revision, key, value.
func (m *Main) printChange(bucket string, e *entry) error {
	if m.flags.json {
		return m.object(entryFields(bucket, e, true))
	}
	columns := []string{e.Op.String(), number(e.Revision), printable([]byte(e.Key))}
	if e.Live() {
		columns = append(columns, printable(e.Value))
	}
	return m.line(columns...)
}

// ended is the error of a loop that follows: being told to stop is how it ends.
func (m *Main) ended(ctx context.Context, err error) error {
	if errors.Is(err, mainstem.ErrCanceled) && errors.Is(context.Cause(ctx), errInterrupted) {
		return nil
	}
	return err
}
