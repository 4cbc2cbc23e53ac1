package link

import (
	"fmt"
	"testing"
	"time"
)

// TestPastNodesAreForgotten: nodes with ever new names that come and go do not fill memory. Those that
// came last, and those with a session, are kept.
func TestPastNodesAreForgotten(t *testing.T) {
	e := &Endpoint{o: &Options{MaxPeers: 10}, known: make(map[string]*known)}
	const names = 1000
	began := time.Now()
	e.knows("here").session = new(Peer)
	for i := range names {
		k := e.knows(fmt.Sprint(i))
		k.highest, k.ended = 1, began.Add(time.Duration(i))
		if most := 8 * e.o.MaxPeers; len(e.known) > most {
			t.Fatalf("%d nodes are known, want at most %d", len(e.known), most)
		}
	}
	for i := names - 2*e.o.MaxPeers; i < names; i++ {
		if e.known[fmt.Sprint(i)] == nil {
			t.Errorf("node %d, one of the last, is forgotten", i)
		}
	}
	if e.known["here"] == nil {
		t.Error("a node with a session is forgotten")
	}
}
