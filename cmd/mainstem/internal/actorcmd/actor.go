// Package actorcmd is the commands of mainstem actor, which ask a node of a cluster of actors
// and make certificates for nodes.
//
//	mainstem actor tree --node shop
package actorcmd

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/actor/cluster/clusterserver"
	"github.com/mainstemdev/mainstem/actor/cluster/devca"
	"github.com/mainstemdev/mainstem/actor/cluster/inspect"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/server"
)

// commands has a method for each command of the group, and what these share.
type commands struct{ *cli.Main }

const actorHelp = `

It asks a server that is a node of the cluster (mainstem serve --cluster). Other nodes
answer if their programs have an inspector: package actor/cluster/inspect.`

// New returns mainstem actor.
func New(program *cli.Main) *cobra.Command {
	m := commands{program}
	c := &cobra.Command{
		Use:   "actor",
		Short: "Look into a cluster of actors, and make its certificates",
		Long: `Look into a cluster of actors by way of a server that is one of its nodes, and make
the certificates by which nodes know each other.` + actorHelp,
		RunE: cli.Group,
	}
	c.AddCommand(m.newNodes(), m.newTree(), m.newInspect(), m.newCA())
	return c
}

// askActors asks the server that the command line names.
func (m commands) askActors(cmd *cobra.Command, path string, query url.Values, v any) error {
	return m.WithTarget(cmd, func(ctx context.Context, base string, o *server.LogOptions) error {
		return clusterserver.Ask(ctx, base, path, query, o, v)
	})
}

func (m commands) newNodes() *cobra.Command {
	var of string
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "List the nodes of a cluster",
		Long: `List the nodes that a node knows of, itself first, with their state:

  up          connected
  suspect     the connection is lost; messages wait for another
  down        it has left, or was out of reach for too long
  never seen  it is in --cluster-peers, and was never connected` + actorHelp,
		Example: `  mainstem actor nodes
  mainstem actor nodes --node shop --json`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all clusterserver.Nodes
			if err := m.askActors(cmd, clusterserver.NodesPath, about(of), &all); err != nil {
				return err
			}
			return m.printNodes(all.Nodes)
		},
	}
	addNode(cmd, &of)
	return cmd
}

func addNode(cmd *cobra.Command, of *string) {
	cmd.Flags().StringVar(of, "node", "", "`name` of the node to ask (default the server)")
}

func about(node string) url.Values {
	if node == "" {
		return url.Values{}
	}
	return url.Values{"node": {node}}
}

func (m commands) printNodes(all []inspect.Node) error {
	w := tabwriter.NewWriter(m.Out, 0, 0, 2, ' ', 0)
	for _, n := range all {
		if !m.Flags.JSON {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", cli.Printable(n.Name), n.Address, n.State, nodeNote(&n))
			continue
		}
		f := new(cli.Fields).Text("name", n.Name).Add("start", n.Start)
		cli.Opt(f, "address", n.Address)
		cli.Opt(f, "state", n.State)
		if !n.Since.IsZero() {
			f.Add("since", n.Since.UTC())
		}
		cli.Opt(f, "reason", n.Reason)
		if n.Self {
			f.Add("self", true).Add("actors", n.Actors).Add("dead_letters", n.Dead)
		}
		if err := m.Object(f); err != nil {
			return err
		}
	}
	return w.Flush()
}

// nodeNote is what stands beside the state of a node.
func nodeNote(n *inspect.Node) string {
	switch {
	case n.Self:
		return fmt.Sprintf("(asked) %d actors", n.Actors)
	case n.Since.IsZero():
		return ""
	}
	note := "since " + n.Since.Local().Format(time.DateTime)
	if n.Reason != "" {
		note += ": " + cli.Printable(n.Reason)
	}
	return note
}

func (m commands) newTree() *cobra.Command {
	var of string
	var limit int
	cmd := &cobra.Command{
		Use:   "tree",
		Short: "List the actors of a node, each below its parent",
		Long: `List the actors of a node, each below its parent: the address, the type, what it is
doing, how many messages wait and how many it has handled.` + actorHelp,
		Example: `  mainstem actor tree
  mainstem actor tree --node shop --limit 100`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := about(of)
			if limit > 0 {
				query.Set("limit", strconv.Itoa(limit))
			}
			var tree clusterserver.Tree
			if err := m.askActors(cmd, clusterserver.TreePath, query, &tree); err != nil {
				return err
			}
			return m.printTree(&tree)
		},
	}
	addNode(cmd, &of)
	cmd.Flags().IntVar(&limit, "limit", 0, fmt.Sprintf("at most this `number` of actors (default %d)", inspect.MaxActors))
	return cmd
}

func (m commands) printTree(t *clusterserver.Tree) error {
	w := tabwriter.NewWriter(m.Out, 0, 0, 2, ' ', 0)
	for i := range t.Actors {
		a := &t.Actors[i]
		if m.Flags.JSON {
			if err := m.Object(actorFields(a)); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%d waiting\t%d handled\n", strings.Repeat("  ", a.Depth), cli.Printable(a.Address), a.Behaviour, a.State, a.Waiting, a.Handled)
	}
	if t.More && !m.Flags.JSON {
		fmt.Fprintf(w, "... and more: see --limit\n")
	}
	return w.Flush()
}

func actorFields(a *inspect.Actor) *cli.Fields {
	f := new(cli.Fields).Text("address", a.Address).Add("number", a.Number).Add("depth", a.Depth)
	if len(a.Names) > 0 {
		f.Add("names", a.Names)
	}
	cli.Opt(f, "parent", a.Parent)
	f.Add("behaviour", a.Behaviour).Add("messages", a.Messages).Add("state", a.State).Add("waiting", a.Waiting).
		Add("handled", a.Handled).Add("incarnation", a.Incarnation).Add("links", a.Links).Add("monitors", a.Monitors).Add("children", a.Children)
	cli.Opt(f, "reason", a.Reason)
	return f
}

func (m commands) newInspect() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect ADDRESS",
		Short: "Show one actor, with what it shows of itself",
		Long: `Show one actor: NODE/NAME or NODE/#NUMBER, as in the output of tree. What it shows of
itself stands below, if it is an actor.Inspector.` + actorHelp,
		Example: `  mainstem actor inspect shop/cart-42
  mainstem actor inspect 'shop/#4294967297' --json`,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			at, err := addressText(a[0])
			if err != nil {
				return cli.WrongUsage(cmd, err)
			}
			var one inspect.Actor
			if err := m.askActors(cmd, clusterserver.InspectPath, url.Values{"address": {at}}, &one); err != nil {
				return err
			}
			return m.printActor(&one)
		},
	}
}

// addressText makes an address as addresses are printed one as they are written.
func addressText(s string) (string, error) {
	name, rest, ok := strings.Cut(s, "/")
	if !ok || name == "" || rest == "" {
		return "", fmt.Errorf("%q is no address: want NODE/NAME or NODE/#NUMBER", s)
	}
	if i := strings.LastIndexByte(name, '@'); i >= 0 {
		if _, err := strconv.ParseUint(name[i+1:], 10, 64); err == nil {
			return s, nil // it says which life of the node
		}
	}
	return name + "@0/" + rest, nil
}

func (m commands) printActor(a *inspect.Actor) error {
	if m.Flags.JSON {
		f := actorFields(a)
		if len(a.Shown) > 0 {
			f.Add("shown", a.Shown)
		}
		return m.Object(f)
	}
	lines := [][2]string{
		{"address", cli.Printable(a.Address)}, {"number", cli.Number(a.Number)}, {"names", strings.Join(a.Names, ", ")}, {"parent", a.Parent},
		{"behaviour", a.Behaviour}, {"messages", a.Messages}, {"state", a.State}, {"reason", a.Reason},
		{"waiting", cli.Number(a.Waiting)}, {"handled", cli.Number(a.Handled)}, {"incarnation", cli.Number(a.Incarnation)},
		{"links", cli.Number(a.Links)}, {"monitors", cli.Number(a.Monitors)}, {"children", cli.Number(a.Children)},
	}
	for _, name := range cli.SortedNames(a.Shown) {
		lines = append(lines, [2]string{"  " + name, cli.Printable(a.Shown[name])})
	}
	return m.Table(lines)
}

func (m commands) newCA() *cobra.Command {
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
		Args: cli.Args(1, -1),
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

func (m commands) printCertificate(dir, name string) error {
	if m.Flags.JSON {
		return m.Object(new(cli.Fields).Text("node", name).Text("directory", dir).Text("authority", filepath.Join(dir, devca.CertificateFile)))
	}
	return m.Line(cli.Printable(name), dir)
}
