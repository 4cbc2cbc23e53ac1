package clustertest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testport"
)

var soak = flag.Duration("cluster.soak", 0, "how long TestRandomKills goes on, instead of a few kills")

const (
	leastKills = 3
	heapSlack  = 8 << 20 // bytes that a node's heap may differ by between two quiet moments
	goroutines = 8       // that there may be more
)

// village are three nodes on one machine: a sends, b passes on, c counts.
type village struct {
	t     *testing.T
	peers map[string]string
	nodes map[string]*process

	rounds int
}

func newVillage(t *testing.T) *village {
	t.Helper()
	v := &village{t: t, peers: make(map[string]string), nodes: make(map[string]*process)}
	for _, name := range []string{"a", "b", "c"} {
		v.peers[name] = testport.Address(t)
	}
	return v
}

func (v *village) start(name string) {
	v.t.Helper()
	v.nodes[name] = start(v.t, setup{Name: name, Listen: v.peers[name], Peers: v.peers})
	if name == "b" {
		v.nodes["b"].do(request{Do: "gateway", To: "c"})
	}
}

// round lets a send through b to c while one of those is killed and started again.
func (v *village) round() (victim string) {
	v.t.Helper()
	victim = []string{"b", "c"}[rand.IntN(2)]
	v.load()
	hold(200*time.Millisecond + rand.N(500*time.Millisecond))
	v.nodes[victim].kill()
	hold(rand.N(500 * time.Millisecond))
	v.start(victim)
	v.awaitCounted("after " + victim + " was killed")
	hold(200 * time.Millisecond)
	r := v.nodes["a"].do(request{Do: "stop"})
	seen := v.nodes["c"].do(request{Do: "report"}).Seen
	if victim == "c" {
		r.Acked = nil // what it had counted is gone with it
	}
	if counted, _ := judge(v.t, r.Sent, r.Acked, seen, false); counted == 0 {
		v.t.Error("nothing was counted")
	}
	v.nodes["c"].do(request{Do: "forget"})
	return victim
}

// load has a begin to send through b to c.
func (v *village) load() {
	v.t.Helper()
	v.rounds++
	v.nodes["a"].do(request{Do: "load", Via: "b"})
}

// awaitCounted returns when c has counted something of every sender of this round.
func (v *village) awaitCounted(when string) {
	v.t.Helper()
	testkit.Eventually(v.t, "increments to be counted "+when, func() bool {
		senders := 0 // of this round; something of earlier ones may come late
		for from := range v.nodes["c"].do(request{Do: "report"}).Seen {
			if strings.HasPrefix(from, fmt.Sprint(v.rounds, " ")) {
				senders++
			}
		}
		return senders == askers+1
	})
}

// leave lets all nodes leave. They meet once more before, so that none has anything left
// for a node that was killed: it could not be delivered.
func (v *village) leave() {
	v.t.Helper()
	v.load()
	v.awaitCounted("at last")
	v.nodes["a"].do(request{Do: "stop"})
	for name, p := range v.nodes {
		if r := p.do(request{Do: "leave"}); r.Error != "" {
			v.t.Errorf("%s: %s", name, r.Error)
		}
	}
}

// Nodes are killed at random while others send to them. Nothing is counted twice, living nodes find
// restarted ones again, and neither memory nor goroutines grow in the one that is never killed.
func TestRandomKills(t *testing.T) {
	v := newVillage(t)
	for _, name := range []string{"a", "b", "c"} {
		v.start(name)
	}
	v.round() // pools fill, maps grow
	first := v.vitals()
	var heaps []uint64
	kills := 0
	for end := time.Now().Add(*soak); kills < leastKills || time.Now().Before(end); kills++ {
		v.round()
		heaps = append(heaps, v.vitals().Heap)
	}
	testkit.Eventually(t, "goroutines to be as few as before", func() bool { return v.vitals().Routine <= first.Routine+goroutines })
	last := slices.Min(heaps[len(heaps)-min(len(heaps), leastKills):])
	if last > first.Heap+heapSlack {
		t.Errorf("the heap grew from %d to %d bytes in %d kills", first.Heap, last, kills)
	}
	t.Logf("%d kills: heap %d to %d bytes, %d to %d goroutines", kills, first.Heap, last, first.Routine, v.vitals().Routine)
	v.leave()
}

// vitals are those of the node that is never killed.
func (v *village) vitals() response { return v.nodes["a"].do(request{Do: "vitals"}) }
