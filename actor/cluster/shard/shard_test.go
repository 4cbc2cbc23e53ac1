package shard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/actor/cluster/shard"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/lease"
)

// Count is the number that one sender sends to one key, the next after the last.
type Count struct {
	Key   string             `bin:"1"`
	From  string             `bin:"2"`
	N     int                `bin:"3"`
	Reply actor.Reply[int64] `bin:"4"`
}

func keyOf(m Count) string { return m.Key }

// ledger records the messages that the actors of all nodes have handled.
type ledger struct {
	t     *testing.T
	mu    sync.Mutex
	last  map[string]int    // by sender and key
	lives map[string]string // which node has the actor of a key now
	moves int
}

func newLedger(t *testing.T) *ledger {
	return &ledger{t: t, last: make(map[string]int), lives: make(map[string]string)}
}

// tally is the actor of a key.
type tally struct {
	l    *ledger
	node string
	e    shard.Entity
}

func (l *ledger) fresh(node string) func(shard.Entity) actor.Actor[Count] {
	return func(e shard.Entity) actor.Actor[Count] { return &tally{l, node, e} }
}

func (a *tally) Start(*actor.Context[Count]) error {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	if other := a.l.lives[a.e.Key]; other != "" {
		a.l.t.Errorf("the actor of %s starts on %s while one lives on %s", a.e.Key, a.node, other)
	}
	a.l.lives[a.e.Key] = a.node
	a.l.moves++
	return nil
}

func (a *tally) Stop(*actor.Context[Count], error) {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	delete(a.l.lives, a.e.Key)
}

func (a *tally) Receive(_ *actor.Context[Count], m Count) error {
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	id := m.From + " to " + m.Key
	if want := a.l.last[id] + 1; m.N != want {
		a.l.t.Errorf("%s: got %d, want %d", id, m.N, want)
	}
	if !a.e.Lease.Valid() {
		a.l.t.Errorf("%s: handled without a valid lease", id)
	}
	a.l.last[id] = m.N
	return m.Reply.Send(int64(a.e.Lease.Epoch()))
}

func open(t *testing.T, p *peer, l *ledger) *shard.Region[Count] {
	t.Helper()
	r, err := shard.Open(p.cluster(), p.keeper, "tallies", keyOf, l.fresh(p.Name()), &shard.Options{Shards: 16, Entities: &actor.Options{Idle: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Senders on all nodes count for many keys while regions come and go: every message
// is handled once, in its order, by one actor at a time.
func TestMessagesArriveOnceAndInOrderWhileShardsMove(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			log := model.New(nil)
			defer log.Close()
			names := []string{"a", "b", "c"}
			b := newSwitchboard(t, log, names...)
			l := newLedger(t)
			rnd := rand.New(rand.NewPCG(seed, 1))
			clients := make(map[string]*shard.Region[Count]) // regions that stay
			regions := make(map[string]*shard.Region[Count])
			for _, n := range names {
				if n != "c" {
					regions[n] = open(t, b.nodes[n], l)
				}
			}
			clients["a"] = regions["a"]
			client, err := shard.Open(b.nodes["c"].cluster(), b.nodes["c"].keeper, "tallies", keyOf, nil, &shard.Options{Shards: 16})
			if err != nil {
				t.Fatal(err)
			}
			clients["c"] = client

			var wg sync.WaitGroup
			sent := 400
			for from, r := range clients {
				for k := range 6 {
					wg.Go(func() {
						for n := 1; n <= sent; n++ {
							err := r.Ref().Send(t.Context(), Count{Key: fmt.Sprint("key", k), From: from, N: n})
							if err != nil {
								t.Error(err)
							}
							time.Sleep(time.Duration(k+1) * time.Millisecond)
						}
					})
				}
			}
			for range 8 {
				time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
				if regions["b"] != nil {
					if err := regions["b"].Close(t.Context()); err != nil {
						t.Error(err)
					}
					regions["b"] = nil
				} else {
					regions["b"] = open(t, b.nodes["b"], l)
				}
			}
			wg.Wait()
			time.Sleep(time.Minute / 2)
			l.mu.Lock()
			for from := range clients {
				for k := range 6 {
					if id := fmt.Sprint(from, " to key", k); l.last[id] != sent {
						t.Errorf("%s: %d of %d arrived", id, l.last[id], sent)
					}
				}
			}
			if l.moves <= 6 {
				t.Errorf("%d actors were started for 6 keys: nothing has moved", l.moves)
			}
			l.mu.Unlock()
			for _, r := range []*shard.Region[Count]{regions["a"], regions["b"], client} {
				if r != nil {
					if err := r.Close(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

func TestShardsAreSharedAndMoveToWhoComesAndFromWhoGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		defer log.Close()
		b := newSwitchboard(t, log, "a", "b", "c")
		l := newLedger(t)
		var rs []*shard.Region[Count]
		var owners [3]map[int]string
		for i, n := range []string{"a", "b", "c"} {
			rs = append(rs, open(t, b.nodes[n], l))
			time.Sleep(time.Minute)
			owners[i] = make(map[int]string)
			for s := range 16 {
				node, _, ok := rs[0].Owner(s)
				if !ok {
					t.Fatalf("shard %d has no owner", s)
				}
				owners[i][s] = node
			}
		}
		for s := range 16 {
			if owners[1][s] != owners[2][s] && owners[2][s] != "c" {
				t.Errorf("shard %d moved from %s to %s when c came", s, owners[1][s], owners[2][s])
			}
		}
		count := make(map[string]int)
		for _, n := range owners[2] {
			count[n]++
		}
		if len(count) != 3 {
			t.Errorf("16 shards on three nodes: %v", count)
		}
		epoch, err := actor.Ask(t.Context(), rs[0].Ref(), func(r actor.Reply[int64]) Count { return Count{Key: "k", From: "x", N: 1, Reply: r} })
		if err != nil || epoch == 0 {
			t.Errorf("Ask: %d, %v", epoch, err)
		}
		_, err = shard.Open(b.nodes["a"].cluster(), b.nodes["a"].keeper, "tallies", keyOf, nil, &shard.Options{Shards: 8})
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("another number of shards: %v, want Invalid", err)
		}
		for i := range rs {
			r := rs[len(rs)-1-i]
			if err := r.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if err := r.Ref().Send(t.Context(), Count{}); !errors.Is(err, mainstem.ErrClosed) {
				t.Errorf("Send after Close: %v, want Closed", err)
			}
		}
	})
}

// A node that loses the log stops its actors before another starts theirs, and takes
// its shards again when it is back.
func TestANodeThatIsCutOffFromTheLogGivesUpItsShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		defer log.Close()
		b := newSwitchboard(t, log, "a")
		cut := &cutLog{Log: log}
		node, err := actor.Open("far", nil)
		if err != nil {
			t.Fatal(err)
		}
		far := &peer{Node: node, board: b}
		b.nodes["far"] = far
		if err := node.Connect(far); err != nil {
			t.Fatal(err)
		}
		if far.keeper, err = lease.Open(t.Context(), cut, lease.Member{Name: "far", Start: node.Start()}, nil); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = far.keeper.Close(t.Context()); _ = node.Close() }()
		l := newLedger(t)
		there := open(t, far, l)
		time.Sleep(time.Second)
		here := open(t, b.nodes["a"], l)
		time.Sleep(time.Second)
		for k := range 32 {
			if err := here.Ref().Send(t.Context(), Count{Key: fmt.Sprint(k), From: "x", N: 1}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		l.mu.Lock()
		before := len(l.lives)
		l.mu.Unlock()
		cut.down.Store(true)
		time.Sleep(time.Minute)
		for s := range 16 {
			if n, _, ok := here.Owner(s); n != "a" || !ok {
				t.Errorf("shard %d is owned by %q", s, n)
			}
		}
		for k := range 32 { // a node that started a second actor beside the first would be noticed
			if err := here.Ref().Send(t.Context(), Count{Key: fmt.Sprint(k), From: "x", N: 2}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		cut.down.Store(false)
		time.Sleep(time.Minute)
		if n := len(here.Nodes()); n != 2 {
			t.Errorf("%d nodes share the shards after the cut is over, want 2", n)
		}
		l.mu.Lock()
		if before != 32 {
			t.Errorf("%d actors lived before the cut, want 32", before)
		}
		l.mu.Unlock()
		if err := errors.Join(there.Close(t.Context()), here.Close(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// leader writes the values that it gets, fenced by its lease.
type leader struct {
	log   mainstem.Log
	lease *lease.Lease
	err   chan error
}

func (a *leader) Receive(c *actor.Context[Count], m Count) error {
	b := mainstem.NewBatch()
	b.Ensure("counts", mainstem.Policy{})
	b.Put("counts", []byte(m.Key), fmt.Append(nil, m.N))
	a.lease.Fence(b)
	_, err := a.log.Commit(context.WithoutCancel(c), b)
	a.err <- err
	return nil
}

// The one log makes fencing exact: a singleton that its node cannot stop writes nothing more once
// another may run.
func TestASoleActorMovesAndItsFormerSelfIsFencedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		defer log.Close()
		b := newSwitchboard(t, log, "a", "b")
		errs := make(chan error, 10)
		var leases []*lease.Lease
		var mu sync.Mutex
		sole := func(n string) *shard.Region[Count] {
			r, err := shard.Sole(b.nodes[n].cluster(), b.nodes[n].keeper, "leader", func(l *lease.Lease) actor.Actor[Count] {
				mu.Lock()
				defer mu.Unlock()
				leases = append(leases, l)
				return &leader{log, l, errs}
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		ra := sole("a")
		time.Sleep(time.Second)
		rb := sole("b")
		time.Sleep(time.Minute)
		if n, _, _ := rb.Owner(0); n != "a" || len(leases) != 1 {
			t.Errorf("the first to come is not the owner: %q", n)
		}
		if err := rb.Ref().Send(t.Context(), Count{Key: "k", N: 1}); err != nil {
			t.Fatal(err)
		}
		if err := <-errs; err != nil {
			t.Error(err)
		}
		if err := ra.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := rb.Ref().Send(t.Context(), Count{Key: "k", N: 2}); err != nil {
			t.Fatal(err)
		}
		if err := <-errs; err != nil {
			t.Error(err)
		}
		mu.Lock()
		if len(leases) != 2 || leases[1].Epoch() <= leases[0].Epoch() {
			t.Errorf("epochs %v", leases)
		}
		stale := &leader{log, leases[0], errs}
		mu.Unlock()
		batch := mainstem.NewBatch()
		batch.Put("counts", []byte("k"), []byte("stale"))
		stale.lease.Fence(batch)
		if _, err := log.Commit(t.Context(), batch); !errors.Is(err, mainstem.ErrConflict) {
			t.Errorf("a write of the former one: %v, want Conflict", err)
		}
		if err := rb.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Messages that were forwarded to a node cannot wait for slots. While the next owner takes none, a
// buffer of them is in the lane and another in the queue of the shard; the others are dead letters.
func TestForwardedMessagesForASlowOwnerAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const buffer = 100
		log := model.New(nil)
		defer log.Close()
		b := newSwitchboard(t, log, "a", "b")
		l := newLedger(t)
		ra, err := shard.Open(b.nodes["a"].cluster(), b.nodes["a"].keeper, "tallies", keyOf, nil, &shard.Options{Shards: 16, Buffer: buffer})
		if err != nil {
			t.Fatal(err)
		}
		rb, err := shard.Open(b.nodes["b"].cluster(), b.nodes["b"].keeper, "tallies", keyOf, l.fresh("b"), &shard.Options{Shards: 16})
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		b.nodes["a"].stuck.Store(true)
		for n := range 10 * buffer {
			d := actor.Delivery{To: actor.Address{Node: "a", Name: "shard/tallies"}, Message: Count{Key: "k", From: "x", N: n + 1}}
			if err := b.nodes["a"].Inbound().Deliver(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Minute)
		b.nodes["a"].stuck.Store(false)
		pass(time.Minute)
		l.mu.Lock()
		if got := l.last["x to k"]; got != 2*buffer {
			t.Errorf("%d messages arrived, want %d", got, 2*buffer)
		}
		l.mu.Unlock()
		if n := b.nodes["a"].DeadLetters(); n != 8*buffer {
			t.Errorf("%d dead letters, want %d", n, 8*buffer)
		}
		if err := errors.Join(ra.Close(t.Context()), rb.Close(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// A router that gets what is no message of its region makes a dead letter of it.
func TestMessagesOfAnotherTypeAreDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		defer log.Close()
		b := newSwitchboard(t, log, "a")
		r, err := shard.Open(b.nodes["a"].cluster(), b.nodes["a"].keeper, "tallies", keyOf, newLedger(t).fresh("a"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []any{"text", shard.RelayedForTest("text")} {
			d := actor.Delivery{To: actor.Address{Node: "a", Name: "shard/tallies"}, Message: m}
			if err := b.nodes["a"].Inbound().Deliver(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := b.nodes["a"].DeadLetters(); n != 2 {
			t.Errorf("%d dead letters, want 2", n)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A node that handles nothing slows senders down; it neither fills memory nor holds up messages to
// other nodes.
func TestASlowNodeSlowsItsSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := model.New(nil)
		defer log.Close()
		b := newSwitchboard(t, log, "a", "b")
		l := newLedger(t)
		var rs []*shard.Region[Count]
		for _, n := range []string{"a", "b"} {
			r, err := shard.Open(b.nodes[n].cluster(), b.nodes[n].keeper, "tallies", keyOf, l.fresh(n), &shard.Options{Shards: 16, Buffer: 100})
			if err != nil {
				t.Fatal(err)
			}
			rs = append(rs, r)
		}
		pass(time.Minute)
		b.nodes["a"].stuck.Store(true)
		far, near := "", ""
		for i := range 64 {
			key := fmt.Sprint(i)
			if node, _, _ := rs[0].Owner(rs[0].Shard(key)); node == "b" {
				far = key
			} else {
				near = key
			}
		}
		sent := 0
		for {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := rs[0].Ref().Send(ctx, Count{Key: far, From: "x", N: sent + 1})
			cancel()
			if err != nil {
				if !errors.Is(err, mainstem.ErrCanceled) {
					t.Errorf("Send to a slow node: %v, want Canceled", err)
				}
				break
			}
			sent++
		}
		if sent < 100 || sent > 3000 {
			t.Errorf("%d messages were taken for a node that takes none, with a buffer of 100", sent)
		}
		// The other region is not slowed down.
		if _, err := actor.Ask(t.Context(), rs[1].Ref(), func(r actor.Reply[int64]) Count { return Count{Key: far, From: "y", N: 1, Reply: r} }); err != nil {
			t.Error(err)
		}
		b.nodes["a"].stuck.Store(false)
		if _, err := actor.Ask(t.Context(), rs[0].Ref(), func(r actor.Reply[int64]) Count { return Count{Key: near, From: "z", N: 1, Reply: r} }); err != nil {
			t.Error(err)
		}
		pass(time.Minute)
		l.mu.Lock()
		if got := l.last["x to "+far]; got != sent {
			t.Errorf("%d of %d messages arrived after the node took them again", got, sent)
		}
		l.mu.Unlock()
		if err := errors.Join(rs[0].Close(t.Context()), rs[1].Close(t.Context())); err != nil {
			t.Error(err)
		}
	})
}
