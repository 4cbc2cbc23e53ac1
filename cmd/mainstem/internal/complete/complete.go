// Package complete makes the shell complete arguments and flags of commands: names that are in the log of the command
// line, such as buckets and topics, and the values of flags that have a few.
//
//	source <(mainstem completion bash)
//
// Which argument is which comes from the usage of a command: in "get BUCKET KEY..." the first is a bucket.
//
// # Guarantees
//
// A completion opens the log as the command would, but creates none, waits for no other process that has the directory,
// and prints no error: without an answer in time there are no names.
//
// # Concurrency
//
// A completion belongs to one goroutine.
package complete

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// maxNames is how many names a shell is given at the most.
const maxNames = 200

// errEnough ends a lister that has found maxNames names.
var errEnough = errors.New("enough names")

// request is what is to be completed. It belongs to one goroutine.
type request struct {
	log   mainstem.Log
	cmd   *cobra.Command
	args  []string // the arguments before
	typed string   // the beginning of the name
	names []string // found so far, at most maxNames
}

// lister adds the names of one kind that begin with what is typed.
type lister func(ctx context.Context, r *request) error

// add offers a name if it begins with what is typed, and can stand on a command line as it is.
// It returns errEnough if no more are needed.
func (r *request) add(name string) error {
	if name == "" || strings.HasPrefix(name, "-") || !strings.HasPrefix(name, r.typed) || cli.Printable(name) != name ||
		slices.Contains(r.args, name) || slices.Contains(r.names, name) {
		return nil
	}
	if r.names = append(r.names, name); len(r.names) >= maxNames {
		return errEnough
	}
	return nil
}

// flag returns the value of a flag of the command.
func (r *request) flag(name string) string {
	if f := r.cmd.Flag(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// Add adds completion to all commands below root.
func Add(m *cli.Main, root *cobra.Command) {
	for _, cmd := range root.Commands() {
		addArguments(m, cmd)
		addFlags(m, cmd)
		Add(m, cmd)
	}
}

// path returns the words of a command without the program's name.
func path(cmd *cobra.Command) string {
	_, p, _ := strings.Cut(cmd.CommandPath(), " ")
	return p
}

// below reports whether a command is that of a path, or in its group.
func below(cmd *cobra.Command, group string) bool {
	p := path(cmd)
	return group == "" || p == group || strings.HasPrefix(p, group+" ")
}

func addArguments(m *cli.Main, cmd *cobra.Command) {
	words, command := placeholders(cmd.Use)
	var listers []lister
	some := false
	for _, w := range words {
		l := argumentOf(cmd, strings.TrimSuffix(w, "..."))
		listers, some = append(listers, l), some || l != nil
	}
	if !some {
		return
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		i := len(args)
		if i >= len(words) && strings.HasSuffix(words[len(words)-1], "...") {
			i = len(words) - 1
		}
		switch {
		case i >= len(words) && command, i < len(words) && strings.HasPrefix(words[i], "FILE"):
			return nil, cobra.ShellCompDirectiveDefault
		case i >= len(words) || listers[i] == nil:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(m, cmd, args, typed, listers[i]), cobra.ShellCompDirectiveNoFileComp
	}
}

// placeholders returns the arguments that a usage names before its first flag, and whether a command of the system
// follows them.
func placeholders(use string) (words []string, command bool) {
	for _, w := range strings.Fields(use)[1:] {
		w = strings.Trim(w, "[]")
		if strings.HasPrefix(w, "-") {
			return words, w == "--"
		}
		words = append(words, w)
	}
	return words, false
}

func addFlags(m *cli.Main, cmd *cobra.Command) {
	for _, f := range flags {
		if !below(cmd, f.group) || cmd.Flags().Lookup(f.name) == nil && cmd.PersistentFlags().Lookup(f.name) == nil {
			continue
		}
		_ = cmd.RegisterFlagCompletionFunc(f.name, func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			if f.names != nil {
				return names(m, cmd, nil, typed, f.names), cobra.ShellCompDirectiveNoFileComp
			}
			return matching(f.values, typed), cobra.ShellCompDirectiveNoFileComp
		}) // the error says that an entry above is for this command
	}
}

// matching returns the values that begin with what is typed, in any case of letters. Of a list with commas, the last
// one is completed.
func matching(values []string, typed string) (out []string) {
	before, last := "", typed
	if i := strings.LastIndexByte(typed, ','); i >= 0 {
		before, last = typed[:i+1], typed[i+1:]
	}
	for _, v := range values {
		if len(v) >= len(last) && strings.EqualFold(v[:len(last)], last) {
			out = append(out, before+v)
		}
	}
	return out
}

// names returns the names that l finds, in their order; those found before an error too.
func names(m *cli.Main, cmd *cobra.Command, args []string, typed string, l lister) []string {
	found := make(chan []string, 1)
	m.Glance(cmd, func(ctx context.Context, log mainstem.Log) {
		r := &request{log: log, cmd: cmd, args: args, typed: typed}
		_ = l(ctx, r) // a shell has no place for an error
		found <- r.names
	})
	select {
	case out := <-found:
		slices.Sort(out)
		return out
	default:
		return nil
	}
}
