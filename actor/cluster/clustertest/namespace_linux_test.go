package clustertest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/internal/testkit"
)

var long = flag.Duration("cluster.long", 0, "how long the network goes on failing in TestThreeNamespaces, besides what it always does")

const (
	port0   = 4370
	mortals = 20
)

// needed skips the test, and says so, if the machine lacks what the network is made
// of. With CI set it fails instead.
func needed(t *testing.T) {
	t.Helper()
	missing := ""
	if os.Geteuid() != 0 {
		missing = "network namespaces need root"
	} else if _, err := exec.LookPath("ip"); err != nil {
		missing = fmt.Sprintf("network namespaces need the command ip of iproute2: %v", err)
	} else if _, err := os.Stat("/dev/net/tun"); err != nil {
		missing = fmt.Sprintf("the network between namespaces needs TUN devices: %v", err)
	}
	switch {
	case missing == "":
	case os.Getenv("CI") != "":
		t.Fatal(missing)
	default:
		t.Skip("SKIPPED, NOT TESTED: " + missing)
	}
}

// trio are three nodes in three namespaces: a sends, b passes on, c counts.
type trio struct {
	t       *testing.T
	net     *network
	a, b, c *process
}

func newTrio(t *testing.T) *trio {
	t.Helper()
	s := &trio{t: t, net: newNetwork(t, 3)}
	peers := make(map[string]string)
	for i, name := range []string{"a", "b", "c"} {
		peers[name] = fmt.Sprintf("%s:%d", address(byte(i+1)), port0)
	}
	for i, p := range []**process{&s.a, &s.b, &s.c} {
		name := []string{"a", "b", "c"}[i]
		*p = start(t, setup{Name: name, Listen: peers[name], Peers: peers}, "ip", "netns", "exec", s.net.ports[byte(i+1)].namespace)
	}
	s.b.do(request{Do: "gateway", To: "c"})
	s.b.do(request{Do: "mortals", Count: mortals})
	return s
}

// awaitCounted waits until c has counted all that was sent, or, with sent nil, counts no more.
func (s *trio) awaitCounted(sent map[string]int) map[string][]int {
	s.t.Helper()
	var seen map[string][]int
	last, since := -1, time.Now()
	testkit.Eventually(s.t, "the counter to come to rest", func() bool {
		seen = s.c.do(request{Do: "report"}).Seen
		n := 0
		for _, ns := range seen {
			n += len(ns)
		}
		if n != last {
			last, since = n, time.Now()
		}
		rest := 2 * time.Second
		if sent != nil {
			if len(seen["1 tells"]) == sent["1 tells"] {
				return true
			}
			rest = testkit.Patience / 2 // else something is lost, and the caller says what
		}
		return time.Since(since) > rest
	})
	return seen
}

// Three processes in three network namespaces. The one in the middle, through which
// counters are incremented, is cut off by loss, delay, a partition, and a link that
// goes down, each for less time than the nodes wait for each other: then nothing is lost. Then for
// longer: then it is down, and the monitors of its actors report that.
func TestThreeNamespaces(t *testing.T) {
	needed(t)
	s := newTrio(t)
	s.a.do(request{Do: "monitor", To: "b", Count: mortals})
	s.a.do(request{Do: "load", Via: "b"})
	hold(500 * time.Millisecond)
	s.net.bad(0.05, 5*time.Millisecond, 20*time.Millisecond)
	hold(1500 * time.Millisecond)
	s.b.do(request{Do: "end"}) // every other mortal is killed, with the news under way
	s.net.part(2, true)
	hold(time.Second)
	s.net.part(2, false)
	s.net.bad(0, 0, 0)
	hold(time.Second)
	s.net.link(2, "down")
	hold(time.Second)
	s.net.link(2, "up")
	for end := time.Now().Add(*long); time.Now().Before(end); {
		s.fail()
	}
	hold(time.Second)
	r := s.a.do(request{Do: "stop"})
	counted, acked := judge(t, r.Sent, r.Acked, s.awaitCounted(r.Sent), true)
	if acked < 100 {
		t.Errorf("%d increments were acknowledged: the test has proved little", acked)
	}
	s.checkReasons("killed", "")
	carried, dropped := s.net.packets()
	t.Logf("below the limit: %d increments counted, %d acknowledged; %d packets carried, %d dropped", counted, acked, carried, dropped)

	s.c.do(request{Do: "forget"})
	s.a.do(request{Do: "load", Via: "b"})
	hold(500 * time.Millisecond)
	s.net.part(2, true)
	testkit.Eventually(t, "b to be down for a", func() bool { return !s.sees("b") })
	s.checkReasons("killed", "node down")
	s.net.part(2, false)
	testkit.Eventually(t, "b to be up again for a", func() bool { return s.sees("b") })
	s.awaitAnswers("2 asks 0")
	r = s.a.do(request{Do: "stop"})
	counted, acked = judge(t, r.Sent, r.Acked, s.awaitCounted(nil), false)
	s.checkReasons("killed", "node down") // and nobody twice
	t.Logf("beyond the limit: %d increments counted, %d acknowledged", counted, acked)
	for _, p := range []*process{s.a, s.b, s.c} {
		p.do(request{Do: "leave"})
	}
}

// awaitAnswers waits until more increments of a sender are acknowledged than were when it
// was called. That takes longer than for its node to see the next: b may still be without c,
// and an increment that is lost there keeps its sender waiting for askTime.
func (s *trio) awaitAnswers(from string) {
	s.t.Helper()
	acked := func() int { return len(s.a.do(request{Do: "acked"}).Acked[from]) }
	before := acked()
	testkit.Eventually(s.t, "increments to be acknowledged again", func() bool { return acked() > before })
}

// sees reports whether a node is up, as a sees it.
func (s *trio) sees(node string) bool {
	return slices.Contains(s.a.do(request{Do: "nodes"}).Nodes, node)
}

// fail lets something happen to the network that ends before a node is down.
func (s *trio) fail() {
	host := byte(1 + rand.IntN(3))
	most := downAfter / 2
	switch rand.IntN(4) {
	case 0:
		s.net.bad(rand.Float64()/10, rand.N(20*time.Millisecond), rand.N(40*time.Millisecond))
		hold(rand.N(5 * time.Second))
		s.net.bad(0, 0, 0)
	case 1:
		s.net.part(host, true)
		hold(rand.N(most))
		s.net.part(host, false)
	case 2:
		s.net.link(host, "down")
		hold(rand.N(most))
		s.net.link(host, "up")
	}
	hold(rand.N(3 * time.Second))
}

// checkReasons checks that each monitor has reported once: of the mortals that were killed, and,
// if rest is not "", of the others.
func (s *trio) checkReasons(killed, rest string) {
	s.t.Helper()
	want := func() string {
		downs := s.a.do(request{Do: "downs"}).Downs
		for i := range mortals {
			name, reason := fmt.Sprint("mortal-", i), killed
			if i%2 == 1 {
				reason = rest
			}
			got := downs[name]
			if reason == "" && len(got) != 0 || reason != "" && (len(got) != 1 || got[0] != reason) {
				return fmt.Sprintf("%s: told %q, want %q once", name, got, reason)
			}
		}
		return ""
	}
	problem := ""
	for begin := time.Now(); time.Since(begin) < time.Minute; hold(50 * time.Millisecond) {
		if problem = want(); problem == "" {
			return
		}
	}
	s.t.Error(problem)
}

// hold lets time pass: these tests are about how long something lasts.
func hold(d time.Duration) {
	t := time.NewTimer(d)
	<-t.C
}
