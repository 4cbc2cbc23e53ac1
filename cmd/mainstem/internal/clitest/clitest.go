// Package clitest runs the commands of one group of mainstem in tests of that group: Checker, which takes the group's New,
// returns a function that a test calls with a line, the exit status and what is to be printed.
//
// # Concurrency
//
// Each line is run as a program of its own.
package clitest

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// Group returns the commands of a group, as its New does.
type Group func(*cli.Main) *cobra.Command

// Run runs a command line and returns what it printed, to either stream, and its exit status.
func Run(t testing.TB, group Group, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	m := &cli.Main{Stdout: &out, Stderr: &out, Stdin: strings.NewReader("")}
	status := m.Run(t.Context(), m.Root([]*cobra.Command{group(m)}, nil), args)
	return out.String(), status
}

// Checker returns a function that runs a command line and compares what it does: its exit status, and what it prints, to
// either stream, which a regular expression is to match. The line is words with spaces between; those of before
// come first.
func Checker(t testing.TB, group Group, before ...string) func(line string, status int, want string) {
	return func(line string, status int, want string) {
		t.Helper()
		args := append(slices.Clone(before), strings.Fields(line)...)
		out, got := Run(t, group, args...)
		if got != status || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("mainstem %s: exit status %d, want %d:\n%swant %s", strings.Join(args, " "), got, status, out, want)
		}
	}
}
