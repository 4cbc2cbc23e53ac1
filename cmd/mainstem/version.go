package main

import (
	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/server"
)

func (m *Main) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show what this program was built from",
		Args:  args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			b := server.ReadBuild()
			if m.flags.json {
				f := new(fields).add("version", b.Version).add("go", b.Go)
				opt(f, "commit", b.Commit)
				opt(f, "time", b.Time)
				opt(f, "modified", b.Modified)
				return m.object(f)
			}
			text := "mainstem " + b.Version + " " + b.Go
			if b.Commit != "" {
				text += " commit " + b.Commit
			}
			if b.Modified {
				text += " with local changes"
			}
			return m.line(text)
		},
	}
}
