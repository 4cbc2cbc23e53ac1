package shard_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor"
	"github.com/mainstemdev/mainstem/codec/binary"
	"github.com/mainstemdev/mainstem/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// switchboard connects the nodes of one process. It encodes every message.
type switchboard struct {
	t     *testing.T
	log   mainstem.Log
	codec *binary.Registry
	nodes map[string]*peer
}

// peer is one node, its keeper, and what it sends with.
type peer struct {
	*actor.Node
	actor.Transport // the methods that regions do not use
	board           *switchboard
	keeper          *lease.Keeper

	stuck atomic.Bool // what it sends does not go out
	mu    sync.Mutex
	lines map[string]chan sending

	delays map[string]time.Duration
}

// sending is a call that arrives at a time.
type sending struct {
	at time.Time
	f  func()
}

// line carries calls to another node in their order, each after the delay of the line.
func (p *peer) line(to string, f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lines[to]
	if l == nil {
		if p.lines == nil {
			p.lines, p.delays = make(map[string]chan sending), make(map[string]time.Duration)
		}
		l = make(chan sending, 1<<16)
		p.lines[to], p.delays[to] = l, rand.N(50*time.Millisecond)
		go func() {
			for s := range l {
				pass(time.Until(s.at))
				s.f()
			}
		}()
		p.board.t.Cleanup(func() { close(l) })
	}
	l <- sending{time.Now().Add(p.delays[to]), f}
}

func newSwitchboard(t *testing.T, log mainstem.Log, names ...string) *switchboard {
	b := &switchboard{t: t, log: log, codec: binary.New(nil), nodes: make(map[string]*peer)}
	if err := b.codec.Register("count", Count{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		node, err := actor.Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		p := &peer{Node: node, board: b}
		if err := node.Connect(p); err != nil {
			t.Fatal(err)
		}
		if p.keeper, err = lease.Open(t.Context(), log, lease.Member{Name: name, Start: node.Start()}, nil); err != nil {
			t.Fatal(err)
		}
		b.nodes[name] = p
		t.Cleanup(func() {
			_ = p.keeper.Close(context.Background())
			if err := node.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return b
}

// Node and Register make a peer what regions take for a cluster.
func (p *peer) cluster() clusterOf { return clusterOf{p} }

type clusterOf struct{ p *peer }

func (c clusterOf) Node() *actor.Node { return c.p.Node }
func (c clusterOf) Register(name string, zero any) error {
	_ = c.p.board.codec.Register(name, zero) // each node does it
	return nil
}

func (p *peer) through(v any) any {
	data, err := p.board.codec.AppendAny(nil, v)
	if err != nil {
		p.board.t.Error(err)
	}
	back, err := p.board.codec.DecodeAny(data)
	if err != nil {
		p.board.t.Error(err)
	}
	return back
}

func (p *peer) Send(ctx context.Context, m actor.Outbound) error {
	to := p.board.nodes[m.To.Node]
	if to == nil {
		return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "send", Err: fmt.Errorf("no node %s", m.To.Node)}
	}
	d := actor.Delivery{To: m.To, Priority: m.Priority, Message: p.through(m.Message), Question: m.Question}
	for p.stuck.Load() {
		pass(time.Second)
	}
	p.line(m.To.Node, func() { _ = to.Inbound().Deliver(context.Background(), d) })
	return nil
}

func (p *peer) Answer(_ uint64, to actor.Address, v any, err error) error {
	v = p.through(v)
	p.line(to.Node, func() { _ = p.board.nodes[to.Node].Inbound().Answer(to, v, err) })
	return nil
}

// cutLog is a log that a node can lose.
type cutLog struct {
	mainstem.Log
	down atomic.Bool
}

var errCut = &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "network", Outcome: mainstem.NotWritten}

func (c *cutLog) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if c.down.Load() {
		return mainstem.Receipt{}, errCut
	}
	return c.Log.Commit(ctx, b)
}

func (c *cutLog) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	if c.down.Load() {
		return mainstem.Record{}, errCut
	}
	return c.Log.Get(ctx, space, key)
}

func (c *cutLog) Head(ctx context.Context) (mainstem.Position, error) {
	if c.down.Load() {
		return 0, errCut
	}
	return c.Log.Head(ctx)
}

func (c *cutLog) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		for r, err := range c.Log.Feed(ctx, f) {
			if c.down.Load() {
				yield(mainstem.Record{}, errCut)
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }
