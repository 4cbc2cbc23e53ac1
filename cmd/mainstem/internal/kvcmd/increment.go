package kvcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/kv"
)

func (m commands) newIncrement() *cobra.Command {
	var table tableFlags
	cmd := &cobra.Command{
		Use:   "increment BUCKET KEY BY",
		Short: "Add a number to a counter",
		Long: `Add a whole number to a counter, atomically, and show the sum. A key without a value
counts from 0; a value that is no number is not touched. A counter has 64 bits; a sum
beyond them is refused. A negative number comes after --, as below.

If the answer of a server is lost, the error says that the outcome is unknown: then
look first (mainstem kv get), for trying again may count twice.`,
		Example: `  mainstem kv increment visits home 1
  mainstem kv increment stock -- sku-7 -2`,
		Args: cli.Args(3, 3),
		RunE: func(cmd *cobra.Command, a []string) error {
			by, err := strconv.ParseInt(a[2], 10, 64)
			if err != nil {
				return cli.WrongUsage(cmd, fmt.Errorf("BY is %q: want a whole number of 64 bits", a[2]))
			}
			return m.WithLog(cmd, cli.Writing, func(ctx context.Context, log mainstem.Log) error {
				b, err := kv.OpenIndexed[[]byte](log, a[0], table.options())
				if err != nil {
					return err
				}
				return m.increment(ctx, b, a[1], by, kv.TTL(table.ttl))
			})
		},
	}
	table.add(cmd)
	return cmd
}

func (m commands) increment(ctx context.Context, b *bucket, key string, by int64, ttl kv.ValueOption) error {
	e, err := b.Modify(ctx, key, func(old []byte, found bool) ([]byte, error) { return sum(old, found, by) }, ttl)
	if err != nil {
		var wrong *counterError
		if errors.As(err, &wrong) {
			err = mainstem.Refusef(mainstem.KindInvalid, "kv increment", "%s: key %s: %w", b.Name(), cli.Printable(key), wrong)
		}
		return err
	}
	if m.Flags.JSON {
		return m.Object(entryFields(b.Name(), &e, true))
	}
	return m.Line(string(e.Value))
}

// counterError is why a value cannot be incremented.
type counterError struct{ text string }

func (e *counterError) Error() string { return e.text }

// sum returns the digits of a counter and by together.
func sum(old []byte, found bool, by int64) ([]byte, error) {
	n := int64(0)
	if found {
		var err error
		if n, err = strconv.ParseInt(string(old), 10, 64); err != nil {
			return nil, &counterError{fmt.Sprintf("the value %.40q is not a whole number of 64 bits", old)}
		}
	}
	total := n + by
	if by > 0 && total < n || by < 0 && total > n {
		return nil, &counterError{fmt.Sprintf("%d and %d together are beyond 64 bits", n, by)}
	}
	return strconv.AppendInt(nil, total, 10), nil
}
