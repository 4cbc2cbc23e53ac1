package clustertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster"
	"github.com/mainstemdev/mainstem/actor/cluster/names"
	"github.com/mainstemdev/mainstem/actor/cluster/registrar"
	"github.com/mainstemdev/mainstem/actor/cluster/shard"
	"github.com/mainstemdev/mainstem/actor/cluster/singleton"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/lease"
)

// Entry is a line for an account, which counts its lines.
type Entry struct {
	Account string             `bin:"1"`
	N       int                `bin:"2"`
	Reply   actor.Reply[Where] `bin:"3"`
}

// Where says who answered.
type Where struct {
	Node  string `bin:"1"`
	Epoch uint64 `bin:"2"`
	N     int    `bin:"3"`
}

// account keeps its count in the log, fenced by its lease, so that it goes on where it is
// started next.
type account struct {
	log   mainstem.Log
	e     shard.Entity
	lines int
}

func (a *account) Start(c *actor.Context[Entry]) error {
	r, err := a.log.Get(c, "accounts", []byte(a.e.Key))
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil
	}
	if err == nil {
		_, err = fmt.Sscan(string(r.Value), &a.lines)
	}
	return err
}

func (a *account) Receive(c *actor.Context[Entry], m Entry) error {
	b := mainstem.NewBatch()
	b.Durability = mainstem.OS
	b.Ensure("accounts", mainstem.Policy{History: 1})
	b.Put("accounts", []byte(a.e.Key), fmt.Append(nil, a.lines+1))
	a.e.Lease.Fence(b)
	if _, err := a.log.Commit(c, b); err != nil {
		return err
	}
	a.lines++
	return m.Reply.Send(Where{c.Node().Name(), a.e.Lease.Epoch(), a.lines})
}

// live is a node of this process with all that stands on the log.
type live struct {
	node     *actor.Node
	cluster  *cluster.Cluster
	keeper   *lease.Keeper
	accounts *shard.Region[Entry]
	clerk    *singleton.Singleton[Entry]
}

func begin(t *testing.T, log mainstem.Log, name string) *live {
	t.Helper()
	n := new(live)
	var err error
	check := func(e error) {
		if t.Helper(); e != nil {
			t.Fatal(e)
		}
	}
	n.node, err = actor.Open(name, nil)
	check(err)
	// No lease may end for want of processor time: what its owner has not handled would be lost.
	r := registrar.New(log, &lease.Options{TTL: time.Minute})
	n.cluster, err = cluster.Join(n.node, &cluster.Options{Listen: "127.0.0.1:0", Plain: true, Secret: []byte("known to all of them"), Resolver: r})
	check(err)
	check(errors.Join(n.cluster.Register("entry", Entry{}), n.cluster.Register("where", Where{})))
	n.keeper = r.Keeper()
	o := &shard.Options{Shards: 16, Linger: 200 * time.Millisecond}
	n.accounts, err = shard.Open(n.cluster, n.keeper, "accounts", func(m Entry) string { return m.Account },
		func(e shard.Entity) actor.Actor[Entry] { return &account{log: log, e: e} }, o)
	check(err)
	n.clerk, err = singleton.Open(n.cluster, n.keeper, "clerk",
		func(l *lease.Lease) actor.Actor[Entry] {
			return &account{log: log, e: shard.Entity{Key: "clerk", Lease: l}}
		}, o)
	check(err)
	return n
}

func (n *live) end(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	if err := errors.Join(n.clerk.Close(ctx), n.accounts.Close(ctx), n.cluster.Leave(ctx), n.node.Stop(ctx)); err != nil {
		t.Errorf("%s: %v", n.node.Name(), err)
	}
}

func (n *live) enter(t *testing.T, to actor.Ref[Entry], account string) Where {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w, err := actor.Ask(ctx, to, func(r actor.Reply[Where]) Entry { return Entry{Account: account, Reply: r} })
	if err != nil {
		t.Errorf("%s from %s: %v", account, n.node.Name(), err)
	}
	return w
}

// Nodes that find each other through the log share accounts by key, and a clerk, and
// go on counting where others have stopped: connections, codecs, log and actors all real.
func TestNodesThatFindEachOtherThroughTheLogShareActors(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		a, b := begin(t, log, "a"), begin(t, log, "b")
		testkit.Eventually(t, "shards to be shared", func() bool { return len(a.accounts.Nodes()) == 2 && len(b.accounts.Nodes()) == 2 })
		const each = 30
		count := func(round int) {
			var wg sync.WaitGroup
			for _, n := range []*live{a, b} {
				for k := range 8 {
					wg.Go(func() {
						for range each {
							n.enter(t, n.accounts.Ref(), fmt.Sprint("account", k))
						}
					})
				}
			}
			wg.Wait()
			owners := make(map[string]bool)
			for k := range 8 {
				w := a.enter(t, a.accounts.Ref(), fmt.Sprint("account", k))
				owners[w.Node] = true
				if want := round*2*each + round; w.N != want {
					t.Errorf("account %d has %d lines, want %d", k, w.N, want)
				}
			}
			if len(owners) != 2 {
				t.Errorf("round %d: the accounts are on %d nodes, want 2", round, len(owners))
			}
		}
		testkit.Eventually(t, "b to have a share", func() bool { return owns(b) > 0 && owns(a) > 0 && owns(a)+owns(b) == 16 })
		count(1)

		clerk := b.enter(t, b.clerk.Ref(), "clerk")
		office, err := names.Register(t.Context(), a.keeper, "office", a.accounts.Ref())
		if err != nil {
			t.Fatal(err)
		}
		var there actor.Ref[Entry]
		testkit.Eventually(t, "b to see the name", func() bool {
			there, err = names.Lookup[Entry](b.keeper, b.node, "office")
			return err == nil
		})
		if w := b.enter(t, there, "by name"); w.N != 1 {
			t.Errorf("an account behind a name: %+v", w)
		}
		if err := office.Release(t.Context()); err != nil {
			t.Error(err)
		}
		b.end(t)
		b = begin(t, log, "b")
		testkit.Eventually(t, "b to have a share again", func() bool { return owns(b) > 0 && owns(a)+owns(b) == 16 })
		count(2)
		if next := b.enter(t, b.clerk.Ref(), "clerk"); next.N != clerk.N+1 {
			t.Errorf("the clerk goes on with %+v after %+v", next, clerk)
		}
		b.end(t)
		a.end(t)
	}, testengines.Only("memory", "remote"))
}

// owns returns how many shards a node has, as it sees it itself.
func owns(n *live) int {
	mine := 0
	for s := range 16 {
		if node, _, ok := n.accounts.Owner(s); ok && node == n.node.Name() {
			mine++
		}
	}
	return mine
}
