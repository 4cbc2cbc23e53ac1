package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/actor/cluster/devca"
)

func (m *Main) actorCA() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "ca NODE...",
		Short: "Make certificates for the nodes of a cluster",
		Long: `Make certificates by which the nodes of a cluster know each other, for development
and for clusters on machines of one's own: an authority, if the directory has none, and a
certificate and key for each node named. What is there is kept, and renewed when it
ends soon. Each node needs ca.pem and its own two files; ca.key stays with you.`,
		Example: `  mainstem actor ca server shop stock
  mainstem serve --cluster server@0.0.0.0:4370 --cluster-certs mainstem-certs`,
		Args: args(1, -1),
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := devca.Create(dir, names...); err != nil {
				return err
			}
			for _, name := range names {
				if _, _, err := devca.Load(dir, name); err != nil {
					return err
				}
				if err := m.printCertificate(dir, name); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "mainstem-certs", "`directory` for the certificates")
	return cmd
}

func (m *Main) printCertificate(dir, name string) error {
	if m.flags.json {
		return m.object(new(fields).text("node", name).text("directory", dir).text("authority", filepath.Join(dir, devca.CertificateFile)))
	}
	return m.line(printable([]byte(name)), dir)
}
