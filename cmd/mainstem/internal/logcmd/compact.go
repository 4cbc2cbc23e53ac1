package logcmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// compacter is a log that can erase what was removed from its files.
type compacter interface {
	Compact(ctx context.Context) error
}

func (m commands) newCompact() *cobra.Command {
	return &cobra.Command{
		Use:   "compact",
		Short: "Erase what was removed from all files of a log",
		Long: `Merge all files of the log in a directory. When the command returns, the bytes of
what was deleted, forgotten, truncated, overwritten or dropped before are in none of
them. It takes time and free disk space in proportion to the log. Disk space alone
comes back without it. Backups and copies are not reached. A log that a server has
open cannot be compacted by this command: stop the server first.`,
		Example: `  mainstem compact --log ./mainstem-data`,
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.WithLog(cmd, cli.Reading, m.runCompact)
		},
	}
}

func (m commands) runCompact(ctx context.Context, log mainstem.Log) error {
	c, ok := log.(compacter)
	if !ok {
		return mainstem.Errorf(mainstem.KindUnsupported, "compact", "only a log in a directory can be compacted, where no server has it open")
	}
	begin := time.Now()
	meter := m.StartMeter("compacting", 0)
	err := c.Compact(ctx)
	meter.Finish()
	if err != nil {
		return err
	}
	took := time.Since(begin)
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Add("compacted", true).Add("seconds", took.Seconds()))
	}
	return m.Line("compacted in " + took.Round(time.Millisecond).String())
}
