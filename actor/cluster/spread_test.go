package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/app"
	"github.com/mainstemdev/mainstem/actor/cluster"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// notes is an actor that collects notes.
type notes struct {
	mu  sync.Mutex
	all []string
}

func (n *notes) Receive(_ *actor.Context[Note], m Note) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, m.Text)
	return nil
}

func (n *notes) get() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

func collecting(t testing.TB, m *member) (actor.Ref[Note], *notes) {
	t.Helper()
	n := new(notes)
	r, err := actor.Spawn(m.node, n, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r, n
}

func TestEventsCrossNodes(t *testing.T) {
	a, b := two(t, nil)
	var active atomic.Int64
	news, err := actor.NewEvent[Note](b.node, "news", &actor.EventOptions{Replay: 2, Active: func(on bool) {
		active.Add(map[bool]int64{true: 1, false: -1}[on])
	}})
	if err != nil {
		t.Fatal(err)
	}
	publish := func(text string) {
		if _, err := news.Publish(t.Context(), Note{text}); err != nil {
			t.Error(err)
		}
	}
	publish("0")
	publish("1")
	publish("2")
	far := cluster.EventAt[Note](a.Cluster, "b", "news")
	r1, got1 := collecting(t, a)
	r2, got2 := collecting(t, a)
	if err := far.Subscribe(t.Context(), r1); err != nil {
		t.Fatal(err)
	}
	if active.Load() != 1 || news.Len() != 1 {
		t.Errorf("%d notices, %d subscribers: want one of each", active.Load(), news.Len())
	}
	testkit.Eventually(t, "two values to arrive", func() bool { return slices.Equal(got1.get(), []string{"1", "2"}) })
	publish("3")
	testkit.Eventually(t, "a third value to arrive", func() bool { return len(got1.get()) == 3 })
	if err := cluster.EventAt[Note](a.Cluster, "b", "news").Subscribe(t.Context(), r2); err != nil {
		t.Fatal(err)
	}
	publish("4")
	if err := far.Publish(t.Context(), Note{"5"}); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "five values to arrive", func() bool {
		return slices.Equal(got1.get(), []string{"1", "2", "3", "4", "5"}) && slices.Equal(got2.get(), []string{"2", "3", "4", "5"})
	})
	if news.Len() != 1 {
		t.Errorf("%d subscribers at the origin, want 1 for the node", news.Len())
	}
	far.Unsubscribe(r1)
	far.Unsubscribe(r2)
	testkit.Eventually(t, "the subscriptions to end", func() bool { return active.Load() == 0 && news.Len() == 0 })
	if err := far.Subscribe(t.Context(), r1); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "seven values to arrive", func() bool { return len(got1.get()) == 7 })

	if err := cluster.EventAt[Note](a.Cluster, "b", "none").Subscribe(t.Context(), r1); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("Subscribe to no event: %v, want NotFound", err)
	}
	ping := spawn(t, a, func(*actor.Context[Ping], Ping) error { return nil }, nil)
	if err := cluster.EventAt[Ping](a.Cluster, "b", "news").Subscribe(t.Context(), ping); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("Subscribe to other values: %v, want Invalid", err)
	}
}

// TestSubscriptionsGivenUp gives up subscriptions while the other node is told of them. None stays.
func TestSubscriptionsGivenUp(t *testing.T) {
	a, b := two(t, nil)
	news, err := actor.NewEvent[Note](b.node, "news", nil)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := collecting(t, a)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			far := cluster.EventAt[Note](a.Cluster, "b", "news")
			for i := range 500 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%50)*4*time.Microsecond)
				if err := far.Subscribe(ctx, r); err == nil {
					far.Unsubscribe(r)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if err := cluster.EventAt[Note](a.Cluster, "b", "news").Subscribe(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "one subscription to be left", func() bool { return news.Len() == 1 })
}

func TestEventsEndWithTheirOwnerAndNode(t *testing.T) {
	a, b := two(t, nil)
	owner := worker(t, b, nil)
	do(t, owner, func(c *actor.Context[job]) error {
		_, err := actor.NewEvent[Note](c, "own", nil)
		return err
	})
	if _, err := actor.NewEvent[Note](b.node, "node's", nil); err != nil {
		t.Fatal(err)
	}
	r, _ := collecting(t, a)
	var ends [2]reasons
	for i, name := range []string{"own", "node's"} {
		e := cluster.EventAt[Note](a.Cluster, "b", name)
		if err := e.Subscribe(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		e.OnEnd(ends[i].add)
	}
	owner.Kill()
	only(t, &ends[0], actor.Killed)
	if err := cluster.EventAt[Note](a.Cluster, "b", "own").Subscribe(t.Context(), r); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("Subscribe to an event that has ended: %v", err)
	}
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	only(t, &ends[1], actor.NodeDown)
}

func TestGroupsSpanNodes(t *testing.T) {
	a, b := two(t, nil)
	c := join(t, "c", nil, a, b)
	if err := errors.Join(c.Connect(t.Context(), "a"), c.Connect(t.Context(), "b")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "all nodes to see each other", func() bool { return len(a.Nodes()) == 2 && len(b.Nodes()) == 2 })
	var all []*notes
	var groups []*cluster.Group[Note]
	for _, m := range []*member{a, b, c} {
		g, err := cluster.GroupOf[Note](m.Cluster, "everybody")
		if err != nil {
			t.Fatal(err)
		}
		groups = append(groups, g)
		for range 2 {
			r, n := collecting(t, m)
			if err := g.Join(r); err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
		}
	}
	for i := range 100 {
		if n, err := groups[0].Broadcast(t.Context(), Note{fmt.Sprint(i)}); n != 2 || err != nil {
			t.Fatalf("Broadcast: %d here, %v", n, err)
		}
	}
	for _, n := range all {
		testkit.Eventually(t, "100 messages to arrive", func() bool { return len(n.get()) == 100 })
		for i, text := range n.get() {
			if text != fmt.Sprint(i) {
				t.Fatalf("got %s, want %d", text, i)
			}
		}
	}
	members, err := groups[1].Members(t.Context())
	if len(members) != 6 || err != nil {
		t.Errorf("%d members, %v: want 6", len(members), err)
	}
	for _, r := range members {
		if err := r.Send(t.Context(), Note{"direct"}); err != nil {
			t.Error(err)
		}
	}
	for _, n := range all {
		testkit.Eventually(t, "one more message to arrive", func() bool { return len(n.get()) == 101 })
	}
}

func TestRemoteSpawn(t *testing.T) {
	a, b := two(t, nil)
	err := errors.Join(
		cluster.EnableSpawn(b.Cluster, "echo", func(from string, args Note) (cluster.Spawned[Errand], error) {
			if args.Text == "fail" {
				return cluster.Spawned[Errand]{}, errRefused
			}
			return cluster.Spawned[Errand]{
				Actor: actor.Func[Errand](func(_ *actor.Context[Errand], m Errand) error {
					return m.Reply.Send(from + " " + args.Text + " " + m.Text)
				}),
				Options: &actor.Options{Name: args.Text},
			}, nil
		}, "a", "z"),
		cluster.EnableSpawn(b.Cluster, "private", func(string, Note) (s cluster.Spawned[Errand], err error) { return s, nil }, "z"),
		cluster.EnableSpawn(b.Cluster, "broken", func(string, Note) (s cluster.Spawned[Errand], err error) { panic("no") }, cluster.AnyNode),
	)
	if err != nil {
		t.Fatal(err)
	}
	r, err := cluster.Spawn[Errand](t.Context(), a.Cluster, "b", "echo", Note{"x"})
	if err != nil {
		t.Fatal(err)
	}
	v, err := actor.Ask(t.Context(), r, func(p actor.Reply[string]) Errand { return Errand{Text: "hello", Reply: p} })
	if v != "a x hello" || err != nil {
		t.Errorf("answer %q, %v", v, err)
	}
	for name, c := range map[string]struct {
		spawn string
		args  any
		want  error
	}{
		"taken":        {"echo", Note{"x"}, mainstem.ErrExists},
		"fails":        {"echo", Note{"fail"}, errRefused},
		"not allowed":  {"private", Note{}, mainstem.ErrDenied},
		"not there":    {"nothing", Note{}, mainstem.ErrNotFound},
		"other args":   {"echo", Ping{}, mainstem.ErrInvalid},
		"unregistered": {"echo", struct{ X int }{}, cluster.ErrUnregistered},
	} {
		if _, err := cluster.Spawn[Errand](t.Context(), a.Cluster, "b", c.spawn, c.args); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := cluster.Spawn[Ping](t.Context(), a.Cluster, "b", "echo", Note{}); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("spawn for other messages: %v, want Invalid", err)
	}
	if _, err := cluster.Spawn[Errand](t.Context(), a.Cluster, "b", "broken", nil); err == nil {
		t.Error("a panic is no error")
	}
	if _, err := cluster.Spawn[Errand](t.Context(), a.Cluster, "nowhere", "echo", nil); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("no such node: %v", err)
	}
	if _, err := cluster.Resolve[Errand](t.Context(), a.Cluster, "b", "x"); err != nil {
		t.Error(err)
	}
	if _, err := cluster.Resolve[Ping](t.Context(), a.Cluster, "b", "x"); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("Resolve of other messages: %v, want Invalid", err)
	}
	if _, err := cluster.Resolve[Errand](t.Context(), a.Cluster, "b", "y"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("Resolve of nobody: %v, want NotFound", err)
	}
}

func TestRemoteApplications(t *testing.T) {
	a, b := two(t, nil)
	var running atomic.Int64
	set, err := app.Start(b.node, &app.Options{Only: []string{}},
		app.App{Name: "base", Start: func() error { running.Add(1); return nil }, Stop: func() { running.Add(-1) }},
		app.App{Name: "shop", Needs: []string{"base"}, Start: func() error { running.Add(1); return nil }, Stop: func() { running.Add(-1) }},
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.EnableApp(set, "shop", "a"), b.EnableApp(set, "base", "z")); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := a.StartApp(ctx, "b", "shop"); err != nil || running.Load() != 2 {
		t.Errorf("StartApp: %v, %d run", err, running.Load())
	}
	if err := a.StopApp(ctx, "b", "base"); !errors.Is(err, mainstem.ErrDenied) {
		t.Errorf("StopApp without permission: %v, want Denied", err)
	}
	if err := a.StopApp(ctx, "b", "shop"); err != nil || running.Load() != 1 {
		t.Errorf("StopApp: %v, %d run", err, running.Load())
	}
	if err := a.StartApp(ctx, "b", "nothing"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("StartApp of nothing: %v, want NotFound", err)
	}
}

// A node that no resolver finds may only not be seen yet: it is out of reach, and errors.Is tells why.
func TestANodeWithoutAnAddressIsUnavailable(t *testing.T) {
	a := join(t, "a", nil)
	err := a.Connect(t.Context(), "nowhere")
	if mainstem.KindOf(err) != mainstem.KindUnavailable || !errors.Is(err, mainstem.ErrNotFound) || !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("Connect: %v, want Unavailable because of NotFound", err)
	}
}
