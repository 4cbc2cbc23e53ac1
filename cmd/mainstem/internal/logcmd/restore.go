package logcmd

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/server"
)

func (m commands) newRestore() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "restore --from FILE.tar|DIR|- --to DIR",
		Short: "Make a log from a backup",
		Long: `Make a log in a new or empty directory from a backup: a tar file, a directory, or with
- a tar stream on standard input. The log is verified before the command succeeds.`,
		Example: `  mainstem restore --from monday.tar --to ./mainstem-data
  mainstem restore --from - --to ./mainstem-data < monday.tar`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel, err := m.Context(cmd)
			if err != nil {
				return err
			}
			defer cancel()
			return m.runRestore(ctx, from, to)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "`FILE.tar`, directory or - (required)")
	cmd.Flags().StringVar(&to, "to", "", "new or empty `directory` (required)")
	cli.Required(cmd, "from")
	cli.Required(cmd, "to")
	return cmd
}

func (m commands) runRestore(ctx context.Context, from, to string) error {
	begin := time.Now()
	meter := m.StartMeter("restoring", 0)
	err := m.unpackLog(ctx, from, to)
	meter.Finish()
	if err != nil {
		return err
	}
	log, err := pebblelog.Open(to, &pebblelog.Options{ReadOnly: true, Logger: m.Logger()})
	if err != nil {
		return err
	}
	err = m.verifyRestored(ctx, log, to, begin)
	if cerr := log.Close(); err == nil {
		err = cerr
	}
	return err
}

func (m commands) unpackLog(ctx context.Context, from, to string) error {
	if from == "-" {
		return pebblelog.Restore(ctx, m.Stdin, to)
	}
	info, err := os.Stat(from)
	if err != nil {
		return &mainstem.Error{Kind: mainstem.KindNotFound, Op: "restore", Err: err}
	}
	if info.IsDir() {
		return m.copyDirectory(ctx, from, to)
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return pebblelog.Restore(ctx, f, to)
}

// copyDirectory makes a log of the one in the directory from.
func (m commands) copyDirectory(ctx context.Context, from, to string) error {
	log, err := server.OpenLog(ctx, from, &server.LogOptions{MustExist: true, Logger: m.Logger()})
	if err != nil {
		return err
	}
	defer log.Close()
	b, ok := log.(mainstem.Backuper)
	if !ok {
		return mainstem.Errorf(mainstem.KindUnsupported, "restore", "the log in %s cannot copy itself", from)
	}
	_, err = pipeLog(ctx, b, to)
	return err
}

// verifyRestored checks the new log and says what it holds.
func (m commands) verifyRestored(ctx context.Context, log *pebblelog.Log, to string, begin time.Time) error {
	meter := m.StartMeter("verifying", 0)
	problems := 0
	var first mainstem.Problem
	stats, err := log.Check(ctx, func(p mainstem.Problem) {
		if problems++; problems == 1 {
			first = p
		}
	})
	meter.Finish()
	if err != nil {
		return err
	}
	if problems > 0 {
		return mainstem.Errorf(mainstem.KindCorrupt, "restore to "+to, "the restored log has %d problems, the first: %s: %s", problems, first.Where, first.What)
	}
	head, err := log.Head(ctx)
	if err != nil {
		return err
	}
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("to", to).Add("spaces", stats.Spaces).Add("records", stats.Records).
			Add("head", head).Add("seconds", time.Since(begin).Seconds()))
	}
	return m.Line(fmt.Sprintf("%d records in %d spaces to %s in %s", stats.Records, stats.Spaces, to, time.Since(begin).Round(time.Millisecond)))
}
