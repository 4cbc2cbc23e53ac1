package cli

import (
	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/server"
)

func (m *Main) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show what this program was built from",
		Args:  Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			b := server.ReadBuild()
			if m.Flags.JSON {
				f := new(Fields).Add("version", b.Version).Add("go", b.Go)
				Opt(f, "commit", b.Commit)
				Opt(f, "time", b.Time)
				Opt(f, "modified", b.Modified)
				return m.Object(f)
			}
			text := "mainstem " + b.Version + " " + b.Go
			if b.Commit != "" {
				text += " commit " + b.Commit
			}
			if b.Modified {
				text += " with local changes"
			}
			return m.Line(text)
		},
	}
}
