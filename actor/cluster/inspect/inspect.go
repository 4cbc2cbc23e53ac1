package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
)

// Limits.
const (
	MaxActors = 10_000 // actors in one answer
	MaxAsked  = 64     // questions about one actor that a node answers at the same time
)

// Name is the name of the actor that answers questions, on every node with an [Inspector].
const Name = "mainstem.inspect"

// patience limits the wait for the turn of an actor that shows data of itself.
const patience = 5 * time.Second

// Node is a node as the node that was asked sees it.
type Node struct {
	Name    string `json:"name" bin:"1"`
	Start   uint64 `json:"start" bin:"2"`
	Address string `json:"address,omitempty" bin:"3"`
	Self    bool   `json:"self,omitempty" bin:"4"`         // it is the node that was asked
	Actors  int    `json:"actors,omitempty" bin:"5"`       // their number, with Self
	Dead    uint64 `json:"dead_letters,omitempty" bin:"6"` // their number, with Self
	// State is "up", "suspect" (out of reach, and not yet down), "down" or "never seen", see
	// cluster.State. A node of an earlier version leaves it empty.
	State  string    `json:"state,omitempty" bin:"7"`
	Since  time.Time `json:"since,omitzero" bin:"8"`   // when the state began
	Reason string    `json:"reason,omitempty" bin:"9"` // why it is down
}

// Actor describes an actor, see actor.Info.
type Actor struct {
	Depth       int      `json:"depth" bin:"1"` // in the tree: 0 for children of the node
	Address     string   `json:"address" bin:"2"`
	Number      uint64   `json:"number" bin:"3"`
	Names       []string `json:"names,omitempty" bin:"4"`
	Behaviour   string   `json:"behaviour" bin:"5"`
	Messages    string   `json:"messages" bin:"6"`
	State       string   `json:"state" bin:"7"`
	Waiting     int      `json:"waiting" bin:"8"`
	Handled     uint64   `json:"handled" bin:"9"`
	Incarnation int      `json:"incarnation" bin:"10"`
	Links       int      `json:"links" bin:"11"`
	Monitors    int      `json:"monitors" bin:"12"`
	Children    int      `json:"children" bin:"13"`
	Parent      string   `json:"parent,omitempty" bin:"14"`
	Reason      string   `json:"reason,omitempty" bin:"15"`
	// Shown are the data that an [actor.Inspector] shows of itself, only from [Inspector.Actor]. If
	// it could not be asked, there is an entry "error".
	Shown map[string]string `json:"shown,omitempty" bin:"16"`
}

// question and answer are the messages between inspectors. They cross the wire: nodes of several
// versions must read them.
type question struct {
	What    string              `bin:"1"` // one of askNodes, askTree, askActor
	Address string              `bin:"2"`
	Limit   int                 `bin:"3"`
	Reply   actor.Reply[answer] `bin:"4"`
}

type answer struct {
	Nodes  []Node  `bin:"1"`
	Actors []Actor `bin:"2"`
	More   bool    `bin:"3"`
}

const (
	askNodes = "nodes"
	askTree  = "tree"
	askActor = "actor"
)

// Inspector answers questions of other nodes about its node, and asks other nodes. It is safe for
// concurrent use.
type Inspector struct {
	c     *cluster.Cluster
	asked chan struct{} // of capacity MaxAsked: one element for each question about an actor
}

// New starts the inspector of a node of a cluster. It fails with Exists if the node has one. Every
// node of the cluster may ask.
func New(c *cluster.Cluster) (*Inspector, error) {
	i := &Inspector{c, make(chan struct{}, MaxAsked)}
	ref, err := actor.Spawn(c.Node(), answering{i}, &actor.Options{Name: Name, Mailbox: 1024, Overflow: actor.DropNewest})
	if err != nil {
		return nil, err
	}
	err = errors.Join(c.Register("mainstem.inspect.question", question{}), c.Register("mainstem.inspect.answer", answer{}))
	if err != nil {
		ref.Stop()
		return nil, err
	}
	return i, nil
}

// answering is the behaviour of the actor that answers.
type answering struct{ *Inspector }

// Receive answers a question.
func (t answering) Receive(c *actor.Context[question], q question) error {
	switch q.What {
	case askNodes:
		_ = q.Reply.Send(answer{Nodes: nodes(t.c)})
	case askTree:
		_ = q.Reply.Send(tree(t.c.Node(), q.Limit))
	case askActor:
		select {
		case t.asked <- struct{}{}:
			go func() {
				defer func() { <-t.asked }()
				one(c, q)
			}()
		default:
			_ = q.Reply.Fail(mainstem.Errorf(mainstem.KindUnavailable, "inspect", "%d actors are being asked already", MaxAsked))
		}
	default:
		_ = q.Reply.Fail(mainstem.Errorf(mainstem.KindUnsupported, "inspect", "%q is not a question that this version knows", q.What))
	}
	return nil
}

func nodes(c *cluster.Cluster) []Node {
	n := c.Node()
	all := []Node{{Name: n.Name(), Start: n.Start(), Address: c.Addr(), Self: true, Actors: n.Len(), Dead: n.DeadLetters(), State: cluster.Up.String()}}
	for _, o := range c.States() {
		shown := Node{Name: o.Name, Start: o.Start, Address: o.Addr, State: o.State.String(), Since: o.Since}
		if o.Reason != nil {
			shown.Reason = o.Reason.Error()
		}
		all = append(all, shown)
	}
	return all
}

func tree(n *actor.Node, limit int) answer {
	if limit <= 0 || limit > MaxActors {
		limit = MaxActors
	}
	var a answer
	for depth, info := range n.Walk() {
		if len(a.Actors) == limit {
			a.More = true
			break
		}
		a.Actors = append(a.Actors, describe(depth, &info))
	}
	return a
}

// one answers a question about one actor, in a goroutine of its own, since it waits for that actor.
func one(ctx context.Context, q question) {
	on, _ := ctx.(interface{ Node() *actor.Node })
	node := on.Node()
	at, err := actor.ParseAddress(q.Address)
	if err != nil {
		_ = q.Reply.Fail(err)
		return
	}
	err = actor.ErrRestarted
	var info actor.Info
	if at.Start == 0 || at.Start == node.Start() {
		info, err = node.Inspect(at)
	}
	if err != nil {
		_ = q.Reply.Fail(&mainstem.Error{Kind: mainstem.KindNotFound, Op: "inspect " + at.String(), Err: err})
		return
	}
	a := describe(0, &info)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if shown, err := node.InspectState(ctx, at); err == nil {
		a.Shown = shown
	} else {
		a.Shown = map[string]string{"error": err.Error()}
	}
	_ = q.Reply.Send(answer{Actors: []Actor{a}})
}

func describe(depth int, i *actor.Info) Actor {
	text := func(a actor.Address) string { b, _ := a.MarshalText(); return string(b) }
	a := Actor{
		Depth: depth, Address: i.Address.String(), Number: i.ID, Names: i.Names, Behaviour: i.Behaviour, Messages: i.Messages,
		State: i.State, Waiting: i.Waiting, Handled: i.Handled, Incarnation: i.Incarnation, Links: i.Links,
		Monitors: i.Monitors, Children: i.Children, Parent: text(i.Parent),
	}
	if i.Reason != nil {
		a.Reason = i.Reason.Error()
	}
	return a
}

// Nodes asks a node for the states of the nodes of its cluster, and returns them, the asked node
// first. See [cluster.Cluster.States].
//
// Nodes, Tree and Actor fail with Unavailable if the node that is asked is suspect or cannot be
// connected, Denied if it refuses the connection. They do not wait for a suspect node.
func (i *Inspector) Nodes(ctx context.Context, node string) ([]Node, error) {
	a, err := i.ask(ctx, node, question{What: askNodes})
	return a.Nodes, err
}

// Tree returns the actors of a node, each parent before its children, at most limit (0, and more than
// [MaxActors], means MaxActors), and whether there are more.
func (i *Inspector) Tree(ctx context.Context, node string, limit int) (actors []Actor, more bool, err error) {
	a, err := i.ask(ctx, node, question{What: askTree, Limit: limit})
	return a.Actors, a.More, err
}

// Actor returns one actor with the data that it shows of itself. It fails with NotFound if the actor
// has ended.
func (i *Inspector) Actor(ctx context.Context, at actor.Address) (Actor, error) {
	text, err := at.MarshalText()
	if err != nil {
		return Actor{}, err
	}
	a, err := i.ask(ctx, at.Node, question{What: askActor, Address: string(text)})
	if err == nil && len(a.Actors) != 1 {
		err = mainstem.Errorf(mainstem.KindInternal, "inspect", "node %s described %d actors: want 1", at.Node, len(a.Actors))
	}
	if err != nil {
		return Actor{}, err
	}
	return a.Actors[0], nil
}

// reach returns an error if a node cannot answer now. It connects a node that is not up. A question
// to a suspect node would wait until the node is up or down.
func (i *Inspector) reach(ctx context.Context, node string) error {
	if node == i.c.Node().Name() {
		return nil
	}
	s := i.c.State(node)
	switch s.State {
	case cluster.Up:
		return nil
	case cluster.Suspect:
		return mainstem.Errorf(mainstem.KindUnavailable, "ask node "+node, "it is suspect: out of reach since %s", clock(s.Since))
	}
	err := i.c.Connect(ctx, node)
	switch {
	case err == nil:
		return nil
	case s.State == cluster.Down:
		return fmt.Errorf("node %s is down since %s (%w): %w", node, clock(s.Since), s.Reason, err)
	}
	return fmt.Errorf("node %s was never seen: %w", node, err)
}

// clock formats a time of the same day for an error.
func clock(t time.Time) string { return t.Format("15:04:05") }

func (i *Inspector) ask(ctx context.Context, node string, q question) (answer, error) {
	if err := i.reach(ctx, node); err != nil {
		return answer{}, err
	}
	to, err := actor.At[question](i.c.Node(), actor.Address{Node: node, Name: Name})
	if err != nil {
		return answer{}, err
	}
	return actor.Ask(ctx, to, func(r actor.Reply[answer]) question { q.Reply = r; return q })
}
