// Command mainstem is the Mainstem server, and the command line to its logs.
//
//	mainstem serve
//	mainstem kv put users 42 '{"name":"Ada"}'
//	mainstem event import --store commits --stream 'author-{{.author}}' --type commit commits.jsonl
//	mainstem topic consume orders --from start --follow
//
// Every command works on a directory or on a running server; `mainstem help`
// lists the commands, `mainstem help COMMAND` explains one with examples.
//
// # Which log
//
// --log names a directory, memory:, or the URL of a server. Without it the
// variable MAINSTEM_LOG does; without that, a server that answers on
// 127.0.0.1:8080 is used, else the directory ./mainstem-data if nobody listens
// there or another program answers. If something listens there that gives no answer,
// or wants TLS, commands fail: a write must not go to another log than the one that
// is served. Commands that only read never create a directory.
//
// # Output
//
// Results go to standard output as text, or with --json as one JSON object a line
// whose field names are stable. Bytes in JSON: an object or array of JSON stands as
// it is, other UTF-8 is a string, and anything else is in a field whose name ends in
// _base64. Errors go to standard error as one line, with --json as an object.
//
// # Exit status
//
//	0    done
//	1    failed; nothing below describes it better
//	2    the command line or the configuration is wrong
//	3    not found
//	4    conflict: a condition did not hold, or it exists already
//	130  interrupted
//	141  the reader of the output has gone
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/actorcmd"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/alertcmd"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/auditcmd"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/complete"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/eventcmd"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/generatecmd"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/kafkacmd"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/kvcmd"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/leasecmd"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/logcmd"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/projectioncmd"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/sagacmd"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/servecmd"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/topiccmd"
	_ "github.com/mainstemdev/mainstem/engine/pebblelog/onearena" // else malloc takes far more than the cache has
)

func main() {
	ctx := interruptible(context.Background())
	m := cli.New()
	os.Exit(m.Run(ctx, program(m), os.Args[1:]))
}

// program returns the program with all its commands.
func program(m *cli.Main) *cobra.Command {
	m.Components = servecmd.Components
	root := m.Root(
		[]*cobra.Command{kvcmd.New(m), eventcmd.New(m), projectioncmd.New(m), sagacmd.New(m), auditcmd.New(m), topiccmd.New(m), leasecmd.New(m), actorcmd.New(m), alertcmd.New(m)},
		append(logcmd.New(m), servecmd.New(m), kafkacmd.New(m), generatecmd.New(m)),
	)
	complete.Add(m, root)
	return root
}

// interruptible returns a context that ends with the first SIGINT or SIGTERM. A
// second one ends the process at once. A closed pipe becomes a write error
// instead of a signal, so that the log is closed properly.
func interruptible(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	signal.Ignore(syscall.SIGPIPE)
	go func() {
		<-signals
		cancel(cli.ErrInterrupted)
		<-signals
		os.Exit(cli.ExitInterrupted)
	}()
	return ctx
}
