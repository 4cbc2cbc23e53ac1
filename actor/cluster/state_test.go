package cluster_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/actor/cluster"
	"github.com/mainstemdev/mainstem/actor/cluster/inspect"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// A node that is lost is suspect, up when it is back, and down when it leaves. An
// inspector reports the state of each, without waiting for it.
func TestStates(t *testing.T) {
	o := &cluster.Options{Listen: "127.0.0.1:0", Secret: secret, Plain: true, DownAfter: time.Hour, Logger: logger(t)}
	b := join(t, "b", o)
	p := newProxy(t, b.Addr())
	withPeers := hidden(o)
	withPeers.Peers = map[string]string{"ghost": "127.0.0.1:1"}
	a := join(t, "a", withPeers)
	a.peers["b"] = p.addr()
	i, err := inspect.New(a.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inspect.New(b.Cluster); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	is := func(want cluster.State) {
		t.Helper()
		testkit.Eventually(t, "b to be "+want.String(), func() bool { return a.State("b").State == want })
		s := a.State("b")
		if (want != cluster.NeverSeen) != s.Since.After(begun) || (want == cluster.Down) != (s.Reason != nil) {
			t.Errorf("%s: since %v, reason %v", want, s.Since, s.Reason)
		}
	}
	refused := func(node, text string) {
		t.Helper()
		_, _, err := i.Tree(short(t, time.Minute), node, 0)
		if !errors.Is(err, mainstem.ErrUnavailable) || !strings.Contains(err.Error(), text) {
			t.Errorf("Tree of %s: %v, want Unavailable and %q", node, err, text)
		}
	}

	is(cluster.NeverSeen)
	refused("ghost", "node ghost was never seen")
	if _, _, err := i.Tree(t.Context(), "b", 0); err != nil { // connects
		t.Fatal(err)
	}
	is(cluster.Up)
	p.cut(true)
	is(cluster.Suspect)
	refused("b", "it is suspect: out of reach since")
	p.cut(false)
	is(cluster.Up)
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	is(cluster.Down)
	refused("b", "node b is down since")

	var shown []string
	nodes, err := i.Nodes(t.Context(), "a")
	for _, n := range nodes {
		shown = append(shown, n.Name+" "+n.State)
	}
	if got := strings.Join(shown, ", "); err != nil || got != "a up, b down, ghost never seen" || nodes[1].Reason == "" || nodes[1].Since.IsZero() {
		t.Errorf("Nodes: %s, %+v, %v", got, nodes, err)
	}
}
