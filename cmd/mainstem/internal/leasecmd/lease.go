// Package leasecmd is the commands of mainstem lease, which show leases, and hold one while a
// program runs.
//
//	mainstem lease list
//	mainstem lease hold backup -- ./backup.sh
package leasecmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/kv"
	"github.com/mainstemdev/mainstem/lease"
)

// commands has a method for each command of the group, and what these share.
type commands struct{ *cli.Main }

// holdBucket is the bucket of the leases that mainstem lease hold takes.
const holdBucket = "mainstem/locks"

// The buckets of leases that this program knows: those of servers, nodes of actors and projections too.
const (
	dutyBucket       = "mainstem/duties"
	projectionLeases = "projection-leases" // a database, with a table for each event store
)

// New returns mainstem lease.
func New(program *cli.Main) *cobra.Command {
	m := commands{program}
	c := &cobra.Command{
		Use:   "lease",
		Short: "Leases: who does what, and a lock for programs",
		Long: `Leases: ownership of a name that ends by itself unless its holder renews it. Servers,
nodes of actors and projections share their work by leases; any program can hold one
while it runs. Leases are in buckets; each bucket is a cluster of its own.`,
		RunE: cli.Group,
	}
	c.AddCommand(m.newList(), m.newHold())
	return c
}

func (m commands) newList() *cobra.Command {
	return &cobra.Command{
		Use:   "list [BUCKET]",
		Short: "List members and leases",
		Long: `List the members and the leases of a bucket, or of all that Mainstem itself uses:
bucket, member or lease, name, the node that has it, epoch, when the member has last
renewed its session, and its address or the value of the lease.

A member that crashed is shown until another one misses it: the time says it. The next
holder of a lease has a higher epoch.`,
		Example: `  mainstem lease list
  mainstem lease list mainstem/locks --json`,
		Args: cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			return m.WithLog(cmd, cli.Reading, func(ctx context.Context, log mainstem.Log) error {
				buckets, err := knownBuckets(ctx, log, a)
				out := m.NewList("bucket", "kind", "name", "node", "epoch", "renewed", "value")
				for _, b := range buckets {
					if err == nil {
						err = m.list(ctx, log, b, out)
					}
				}
				return out.End(err)
			})
		},
	}
}

// knownBuckets returns the one that is named, or those that are there and known to hold leases.
func knownBuckets(ctx context.Context, log mainstem.Log, named []string) (out []string, err error) {
	if len(named) > 0 {
		return named, nil
	}
	for t, err := range kv.Tables(ctx, log, "") {
		if err != nil {
			return nil, err
		}
		name := t.Database + "/" + t.Name
		if t.Database == projectionLeases || name == lease.DefaultBucket || name == dutyBucket || name == holdBucket {
			out = append(out, name)
		}
	}
	return out, nil
}

func (m commands) list(ctx context.Context, log mainstem.Log, bucket string, out *cli.List) error {
	members, held, err := lease.Read(ctx, log, bucket)
	if err != nil {
		return err
	}
	renewed := map[string]string{}
	for i := range members {
		p := &members[i]
		renewed[p.Name] = cli.TimeText(p.Renewed)
		if err := m.printMember(out, bucket, p); err != nil {
			return err
		}
	}
	for i := range held {
		if err := m.printHeld(out, bucket, &held[i], renewed[held[i].Node]); err != nil {
			return err
		}
	}
	return nil
}

func (m commands) printMember(out *cli.List, bucket string, p *lease.Present) error {
	if m.Flags.JSON {
		f := new(cli.Fields).Add("bucket", bucket).Text("member", p.Name).Add("epoch", p.Epoch).Time("renewed", p.Renewed).Add("ttl_seconds", p.TTL.Seconds())
		cli.Opt(f, "address", p.Address)
		return m.Object(f)
	}
	return out.Row(bucket, "member", cli.Printable(p.Name), cli.Printable(p.Name), cli.Number(p.Epoch), cli.TimeText(p.Renewed), cli.Printable(p.Address))
}

func (m commands) printHeld(out *cli.List, bucket string, h *lease.Held, renewed string) error {
	if m.Flags.JSON {
		f := new(cli.Fields).Add("bucket", bucket).Text("lease", h.Key).Text("node", h.Node).Add("epoch", h.Epoch).Add("session", h.Session).Add("renewed", renewed)
		cli.Opt(f, "value", h.Value)
		return m.Object(f)
	}
	return out.Row(bucket, "lease", cli.Printable(h.Key), cli.Printable(h.Node), cli.Number(h.Epoch), renewed, cli.Printable(strings.TrimSpace(h.Value)))
}
