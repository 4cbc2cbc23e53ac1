package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Group is the RunE of a command that only holds others: without arguments it shows its help,
// and any argument is a misspelt command.
func Group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += ", did you mean " + strings.Join(near, " or ") + "?"
	}
	return WrongUsage(cmd, errors.New(text))
}

// Args demands least to most arguments, or with most < 0 at least least.
func Args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if n := len(given); n < least || most >= 0 && n > most {
			return WrongUsage(cmd, fmt.Errorf("%d arguments given; usage: %s", n, cmd.UseLine()))
		}
		return nil
	}
}

// Required makes a flag of cmd one that must be given. It panics if cmd has no such flag.
func Required(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagRequired(flag); err != nil {
		panic(err) // the flag does not exist: a mistake in the program
	}
}

// Pairs returns the values NAME=VALUE of a flag by name, nil if there are none. A name may be
// given once.
func Pairs(flag string, given []string) (map[string]string, error) {
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

// TimeOrAge reads the value of a flag that is a time, or a duration before now.
func TimeOrAge(flag, s string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return time.Now().Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("--%s is %q: want a time such as 2026-01-31T08:00:00Z or a duration such as 2h", flag, s)
}

// MaxInput bounds a value that is read whole from standard input, in bytes. The
// log has a limit of its own, which is lower unless it was raised.
const MaxInput = 256 << 20

// Input returns the argument at position i, or standard input, up to MaxInput bytes, if the
// argument is "-" or not there.
func (m *Main) Input(args []string, i int) ([]byte, error) {
	if i < len(args) && args[i] != "-" {
		return []byte(args[i]), nil
	}
	b, err := io.ReadAll(io.LimitReader(m.Stdin, MaxInput+1))
	if err == nil && len(b) > MaxInput {
		err = fmt.Errorf("standard input is larger than %d bytes", MaxInput)
	}
	return b, err
}
