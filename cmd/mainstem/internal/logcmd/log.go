// Package logcmd is the commands on a whole log, whatever views are in it: mainstem check, clock,
// backup, restore, copy and stats.
//
//	mainstem backup --to monday.tar
//	mainstem copy --from ./mainstem-data --to http://127.0.0.1:8080
package logcmd

import (
	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
)

// commands has a method for each command of the group, and what these share.
type commands struct{ *cli.Main }

// New returns mainstem check, clock, backup, restore, copy and stats.
func New(program *cli.Main) []*cobra.Command {
	m := commands{program}
	return []*cobra.Command{m.newCheck(), m.newClock(), m.newCompact(), m.newBackup(), m.newRestore(), m.newCopy(), m.newStats()}
}
