package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem/actor/cluster/clusterserver"
	"github.com/mainstemdev/mainstem/actor/cluster/inspect"
	"github.com/mainstemdev/mainstem/server"
)

const actorHelp = `

It asks a server that is a node of the cluster (mainstem serve --cluster). Other nodes
answer if their programs have an inspector: package actor/cluster/inspect.`

func (m *Main) actor() *cobra.Command {
	c := &cobra.Command{
		Use:   "actor",
		Short: "Look into a cluster of actors, and make its certificates",
		Long: `Look into a cluster of actors by way of a server that is one of its nodes, and make
the certificates by which nodes know each other.` + actorHelp,
		RunE: group,
	}
	c.AddCommand(m.actorNodes(), m.actorTree(), m.actorInspect(), m.actorCA())
	return c
}

// askActors asks the server that the command line names.
func (m *Main) askActors(cmd *cobra.Command, path string, query url.Values, v any) error {
	return m.withServer(cmd, func(ctx context.Context, base string, o *server.LogOptions) error {
		return clusterserver.Ask(ctx, base, path, query, o, v)
	})
}

// withServer runs do with the server that the command line names instead of a log.
func (m *Main) withServer(cmd *cobra.Command, do func(ctx context.Context, base string, o *server.LogOptions) error) error {
	ctx, cancel, err := m.context(cmd.Context())
	if err != nil {
		return err
	}
	defer cancel()
	o := new(server.LogOptions)
	if err := m.credentials(o); err != nil {
		return err
	}
	return do(ctx, m.target(ctx, o.TLSCA), o)
}

func (m *Main) actorNodes() *cobra.Command {
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
		Args: args(0, 0),
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

func (m *Main) printNodes(all []inspect.Node) error {
	w := tabwriter.NewWriter(m.out, 0, 0, 2, ' ', 0)
	for _, n := range all {
		if !m.flags.json {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", printable([]byte(n.Name)), n.Address, n.State, nodeNote(&n))
			continue
		}
		f := new(fields).text("name", n.Name).add("start", n.Start)
		opt(f, "address", n.Address)
		opt(f, "state", n.State)
		if !n.Since.IsZero() {
			f.add("since", n.Since.UTC())
		}
		opt(f, "reason", n.Reason)
		if n.Self {
			f.add("self", true).add("actors", n.Actors).add("dead_letters", n.Dead)
		}
		if err := m.object(f); err != nil {
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
		note += ": " + printable([]byte(n.Reason))
	}
	return note
}

func (m *Main) actorTree() *cobra.Command {
	var of string
	var limit int
	cmd := &cobra.Command{
		Use:   "tree",
		Short: "List the actors of a node, each below its parent",
		Long: `List the actors of a node, each below its parent: the address, the type, what it is
doing, how many messages wait and how many it has handled.` + actorHelp,
		Example: `  mainstem actor tree
  mainstem actor tree --node shop --limit 100`,
		Args: args(0, 0),
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

func (m *Main) printTree(t *clusterserver.Tree) error {
	w := tabwriter.NewWriter(m.out, 0, 0, 2, ' ', 0)
	for i := range t.Actors {
		a := &t.Actors[i]
		if m.flags.json {
			if err := m.object(actorFields(a)); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%d waiting\t%d handled\n", strings.Repeat("  ", a.Depth), printable([]byte(a.Address)), a.Behaviour, a.State, a.Waiting, a.Handled)
	}
	if t.More && !m.flags.json {
		fmt.Fprintf(w, "... and more: see --limit\n")
	}
	return w.Flush()
}

func actorFields(a *inspect.Actor) *fields {
	f := new(fields).text("address", a.Address).add("number", a.Number).add("depth", a.Depth)
	if len(a.Names) > 0 {
		f.add("names", a.Names)
	}
	opt(f, "parent", a.Parent)
	f.add("behaviour", a.Behaviour).add("messages", a.Messages).add("state", a.State).add("waiting", a.Waiting).
		add("handled", a.Handled).add("incarnation", a.Incarnation).add("links", a.Links).add("monitors", a.Monitors).add("children", a.Children)
	opt(f, "reason", a.Reason)
	return f
}

func (m *Main) actorInspect() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect ADDRESS",
		Short: "Show one actor, with what it shows of itself",
		Long: `Show one actor: NODE/NAME or NODE/#NUMBER, as in the output of tree. What it shows of
itself stands below, if it is an actor.Inspector.` + actorHelp,
		Example: `  mainstem actor inspect shop/cart-42
  mainstem actor inspect 'shop/#4294967297' --json`,
		Args: args(1, 1),
		RunE: func(cmd *cobra.Command, a []string) error {
			at, err := addressText(a[0])
			if err != nil {
				return usageError{cmd, err}
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

func (m *Main) printActor(a *inspect.Actor) error {
	if m.flags.json {
		f := actorFields(a)
		if len(a.Shown) > 0 {
			f.add("shown", a.Shown)
		}
		return m.object(f)
	}
	lines := [][2]string{
		{"address", printable([]byte(a.Address))}, {"number", number(a.Number)}, {"names", strings.Join(a.Names, ", ")}, {"parent", a.Parent},
		{"behaviour", a.Behaviour}, {"messages", a.Messages}, {"state", a.State}, {"reason", a.Reason},
		{"waiting", number(a.Waiting)}, {"handled", number(a.Handled)}, {"incarnation", number(a.Incarnation)},
		{"links", number(a.Links)}, {"monitors", number(a.Monitors)}, {"children", number(a.Children)},
	}
	for _, name := range sortedNames(a.Shown) {
		lines = append(lines, [2]string{"  " + name, printable([]byte(a.Shown[name]))})
	}
	return m.table(lines)
}
