package cluster

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/internal/frames"
)

// Ref returns a reference by name to an actor on a node. It does not look for the actor: each message
// goes to the one that has the name when the message arrives.
func Ref[M any](c *Cluster, node, name string) (actor.Ref[M], error) {
	return actor.At[M](c.node, actor.Address{Node: node, Name: name})
}

// Resolve returns a reference by number to the actor that has a name on a node now. It does not refer
// to a later actor of that name. It fails with NotFound if there is none, Invalid if it takes other
// messages, Unavailable if the node cannot be reached, Canceled if ctx ends first.
func Resolve[M any](ctx context.Context, c *Cluster, node, name string) (actor.Ref[M], error) {
	if node == c.node.Name() {
		return actor.Lookup[M](c.node, name)
	}
	s, err := c.reach(ctx, node)
	if err != nil {
		return actor.Ref[M]{}, err
	}
	numbers, err := s.request(ctx, 0, frames.Request{Op: frames.OpResolve, Name: name, Messages: nameOf[M](c)}, nil)
	return refTo[M](s, numbers, err)
}

// refTo returns a reference to the actor whose number is the result of a request.
func refTo[M any](s *session, numbers []uint64, err error) (actor.Ref[M], error) {
	if err == nil && (len(numbers) != 1 || numbers[0] == 0) {
		err = fmt.Errorf("%w: a response without the number of an actor", frames.ErrMalformed)
	}
	if err != nil {
		return actor.Ref[M]{}, err
	}
	return actor.At[M](s.cluster.node, s.there(frames.Target{ID: numbers[0]}))
}

// nameOf returns the name of a type of messages, "" if it has none, as most interface types.
func nameOf[M any](c *Cluster) string {
	if k := c.kinds.table.Load().byType[reflect.TypeFor[M]()]; k != nil {
		return k.name
	}
	return ""
}

// takes fails with Invalid if t, the type of the messages of an actor or of the values of an event,
// has another name. If one of the types has no name they cannot be compared, and takes returns nil.
func (c *Cluster) takes(name string, t reflect.Type, of string) error {
	if name == "" {
		return nil
	}
	if k := c.kinds.table.Load().byType[t]; k != nil && k.name != name {
		return mainstem.Errorf(mainstem.KindInvalid, "look up "+of, "%w: %q, not %q", errTakesOther, k.name, name)
	}
	return nil
}

// AnyNode, in a list of nodes that are permitted something, stands for all nodes of the cluster.
const AnyNode = "*"

// Spawned is an actor to be started, and its options; see [EnableSpawn].
type Spawned[M any] struct {
	Actor   actor.Actor[M]
	Options *actor.Options
}

// offers are the actors and applications that other nodes may start here, by name.
type offers struct {
	mu     sync.Mutex // guards the fields below
	spawns map[string]spawnOffer
	apps   map[string]appOffer
}

type spawnOffer struct {
	nodes []string                                    // that are permitted to
	spawn func(from string, args any) (uint64, error) // returns the number of the actor
	check func(messages string) error                 // fails if the actor takes other messages
}

type appOffer struct {
	nodes []string
	apps  Apps
}

func denied(from, what string) error {
	return mainstem.Errorf(mainstem.KindDenied, what, "it is not enabled for node %s", from)
}

func allows(nodes []string, from string) bool {
	return slices.Contains(nodes, from) || slices.Contains(nodes, AnyNode)
}

// EnableSpawn permits nodes, or [AnyNode], to start actors on this one with [Spawn] under a name.
// make makes the actor for the node from, with arguments of the registered type A, the zero value
// for nil. It is called by many goroutines. The actors are children of this node. EnableSpawn fails
// with Exists if the name is in use, Invalid if nodes is empty.
func EnableSpawn[M, A any](c *Cluster, name string, make func(from string, args A) (Spawned[M], error), nodes ...string) error {
	if len(nodes) == 0 {
		return invalidf("spawn %q is enabled for no node: name them, or AnyNode", name)
	}
	o := spawnOffer{nodes: slices.Clone(nodes), check: func(messages string) error { return c.takes(messages, reflect.TypeFor[M](), name) }}
	o.spawn = func(from string, args any) (uint64, error) {
		typed, ok := args.(A)
		if !ok && args != nil {
			return 0, invalidf("spawn %q takes arguments of type %s, not %T", name, reflect.TypeFor[A](), args)
		}
		made, err := make(from, typed)
		if err != nil {
			return 0, err
		}
		r, err := actor.Spawn(c.node, made.Actor, made.Options)
		if err != nil {
			return 0, err
		}
		return actor.Number(r), nil
	}
	return c.offers.addSpawn(name, o)
}

func (os *offers) addSpawn(name string, o spawnOffer) error {
	os.mu.Lock()
	defer os.mu.Unlock()
	if os.spawns == nil {
		os.spawns = make(map[string]spawnOffer)
	}
	if _, taken := os.spawns[name]; taken {
		return &mainstem.Error{Kind: mainstem.KindExists, Op: "enable spawn " + name}
	}
	os.spawns[name] = o
	return nil
}

// spawn serves a request to start an actor.
func (os *offers) spawn(from string, q frames.Request, args any) ([]uint64, error) {
	os.mu.Lock()
	o, ok := os.spawns[q.Name]
	os.mu.Unlock()
	if !ok {
		return nil, notFound("spawn "+q.Name, "nothing is enabled under that name")
	}
	if !allows(o.nodes, from) {
		return nil, denied(from, "spawn "+q.Name)
	}
	if err := o.check(q.Messages); err != nil {
		return nil, err
	}
	id, err := o.spawn(from, args)
	return []uint64{id}, err
}

// Spawn starts an actor on another node, which must have enabled it with [EnableSpawn]. args must
// be of a registered type, or nil for the zero value. It fails with Denied if this node may not,
// NotFound if the name is not enabled there, Invalid if the actor takes other messages or
// arguments, Unavailable if the node cannot be reached, or with the error of the function there.
// After Canceled, or if the node goes down meanwhile, the actor may have been started.
func Spawn[M any](ctx context.Context, c *Cluster, node, name string, args any) (actor.Ref[M], error) {
	s, err := c.reach(ctx, node)
	if err != nil {
		return actor.Ref[M]{}, err
	}
	numbers, err := s.request(ctx, 0, frames.Request{Op: frames.OpSpawn, Name: name, Messages: nameOf[M](c)}, args)
	return refTo[M](s, numbers, err)
}

// Apps starts and stops applications: an *app.Set.
type Apps interface {
	Start(ctx context.Context, name string) error
	Stop(ctx context.Context, name string) error
}

// EnableApp permits nodes, or [AnyNode], to start and stop an application on this node. It fails with
// Exists if that was called for the name before, Invalid if nodes is empty.
func (c *Cluster) EnableApp(apps Apps, name string, nodes ...string) error {
	if len(nodes) == 0 {
		return invalidf("the application %q is enabled for no node: name them, or AnyNode", name)
	}
	os := &c.offers
	os.mu.Lock()
	defer os.mu.Unlock()
	if os.apps == nil {
		os.apps = make(map[string]appOffer)
	}
	if _, taken := os.apps[name]; taken {
		return &mainstem.Error{Kind: mainstem.KindExists, Op: "enable application " + name}
	}
	os.apps[name] = appOffer{slices.Clone(nodes), apps}
	return nil
}

// app serves a request to start or stop an application.
func (os *offers) app(ctx context.Context, from string, q frames.Request) error {
	os.mu.Lock()
	o, ok := os.apps[q.Name]
	os.mu.Unlock()
	switch {
	case !ok:
		return notFound("start or stop application "+q.Name, "nothing is enabled under that name")
	case !allows(o.nodes, from):
		return denied(from, "start or stop application "+q.Name)
	case q.Op == frames.OpStartApp:
		return o.apps.Start(ctx, q.Name)
	}
	return o.apps.Stop(ctx, q.Name)
}

// StartApp starts an application on another node, which must have enabled it, after those that it
// depends on. Errors are as those of [Spawn].
func (c *Cluster) StartApp(ctx context.Context, node, name string) error {
	return c.command(ctx, node, frames.Request{Op: frames.OpStartApp, Name: name})
}

// StopApp stops an application on another node, which must have enabled it, after those that depend
// on it. Errors are as those of [Spawn].
func (c *Cluster) StopApp(ctx context.Context, node, name string) error {
	return c.command(ctx, node, frames.Request{Op: frames.OpStopApp, Name: name})
}

// command sends a request that has no result.
func (c *Cluster) command(ctx context.Context, node string, q frames.Request) error {
	s, err := c.reach(ctx, node)
	if err != nil {
		return err
	}
	_, err = s.request(ctx, 0, q, nil)
	return err
}
