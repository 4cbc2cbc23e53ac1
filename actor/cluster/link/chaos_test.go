package link_test

import (
	"context"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/actor/cluster/link"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

var seed = flag.Uint64("link.seed", 0, "the seed of tests with random faults; 0: one of the time")

// ledger checks the messages of one direction: of each lane in order, none twice,
// and all of those that must arrive.
type ledger struct {
	hears
	t     testing.TB
	mu    sync.Mutex
	lanes map[uint32]uint64 // the last number
	exact map[uint32]uint64 // how many of those that must arrive have
	whole int
}

const (
	chaosLanes = 8
	exactLanes = 6 // the others are at-most-once
)

// chaosMessage is a number, and so many bytes that follow from it.
func chaosMessage(dst []byte, n uint64, size int) []byte {
	dst = binary.BigEndian.AppendUint64(dst, n)
	for i := range size {
		dst = append(dst, byte(n)+byte(i)+byte(i>>8))
	}
	return dst
}

func (l *ledger) Message(p *link.Peer, lane uint32, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole++
	n := binary.BigEndian.Uint64(body)
	for i, b := range body[8:] {
		if b != byte(n)+byte(i)+byte(i>>8) {
			l.t.Errorf("lane %d: byte %d of message %d was changed", lane, i, n)
			return
		}
	}
	last := l.lanes[lane]
	if lane < exactLanes && n != last+1 || n <= last {
		l.t.Errorf("%s, lane %d: message %d follows %d", p.Name(), lane, n, last)
	}
	l.lanes[lane] = n
	if lane < exactLanes {
		l.exact[lane]++
	}
}

func (l *ledger) complete(each uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for lane := range uint32(exactLanes) {
		if l.exact[lane] != each {
			return false
		}
	}
	return true
}

func (l *ledger) all() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.whole
}

func newLedger(t testing.TB) *ledger {
	return &ledger{t: t, lanes: make(map[uint32]uint64), exact: make(map[uint32]uint64)}
}

// TestNothingIsLostDoubledOrReordered sends both ways while the network does its worst.
func TestNothingIsLostDoubledOrReordered(t *testing.T) {
	for _, c := range []struct {
		name        string
		encrypted   bool
		compression link.Compression
	}{
		{"plain", false, link.Uncompressed},
		{"plain-zstd", false, link.Zstandard},
		{"tls", true, link.Uncompressed},
		{"tls-lz4", true, link.LZ4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			oa, ob := plain("a"), plain("b")
			if c.encrypted {
				ca := authority(t)
				oa, ob = secured(t, ca, "a"), secured(t, ca, "b")
			}
			oa.Compression, ob.Compression = c.compression, c.compression
			chaos(t, oa, ob)
		})
	}
}

func chaos(t *testing.T, oa, ob *link.Options) {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("go test -run '%s' -link.seed=%d", t.Name(), s)
	for _, o := range []*link.Options{oa, ob} {
		o.Connections, o.KeepAlive, o.HandshakeTimeout, o.Resume = 3, 30*time.Millisecond, 500*time.Millisecond, 2*patience
		o.Window, o.MaxBackoff = 1<<20, 10*time.Millisecond
	}
	atA, atB := newLedger(t), newLedger(t)
	b := open(t, ob, atB)
	px := newProxy(t, b.Addr().String(), s)
	if oa.Compression != link.Uncompressed {
		px.reach = 20_000
	}
	oa.Resolve = func(context.Context, string) (string, error) { return px.addr(), nil }
	a := open(t, oa, atA)
	var there *link.Peer
	testkit.Succeeds(t, "a session", func() (err error) { there, err = a.Peer(within(t), "b"); return err })
	testkit.Eventually(t, "the session at the other end", func() bool { return len(b.Peers()) == 1 })
	back := b.Peers()[0]
	before := len(atA.downs()) + len(atB.downs()) // sessions whose handshake took too long
	px.spoil.Store(30)
	px.cutAll(false) // from now on all connections are bad ones
	var senders sync.WaitGroup
	const each = 800
	for lane := range uint32(chaosLanes) {
		for _, p := range []*link.Peer{there, back} {
			senders.Go(func() { sendLane(t, p, lane, each, rand.New(rand.NewPCG(s, uint64(lane)))) })
		}
	}
	senders.Wait()
	testkit.Eventually(t, "all messages", func() bool { return atA.complete(each) && atB.complete(each) })
	st := there.Stats()
	t.Logf("%d connections were spoiled, %d made again; %d frames sent, %d of them again; %d and %d messages arrived",
		px.spoiled.Load(), st.Reconnects, st.SentFrames, st.ResentFrames, atA.all(), atB.all())
	if st.Reconnects == 0 {
		t.Error("no connection was made again: nothing was tested")
	}
	if downs := len(atA.downs()) + len(atB.downs()); downs > before {
		t.Errorf("the session ended: %v %v", atA.downs(), atB.downs())
	}
}

func sendLane(t testing.TB, p *link.Peer, lane uint32, n uint64, r *rand.Rand) {
	mode := link.ExactlyOnce
	if lane >= exactLanes {
		mode = link.AtMostOnce
	}
	for i := range n {
		size := r.IntN(200)
		switch r.IntN(100) {
		case 0:
			size = r.IntN(300_000)
		case 1, 2, 3:
			size = r.IntN(20_000)
		}
		err := p.Send(within(t), lane, mode, func(dst []byte) ([]byte, error) { return chaosMessage(dst, i+1, size), nil })
		if err != nil {
			t.Errorf("%s, lane %d, message %d: %v", p.Name(), lane, i+1, err)
			return
		}
	}
}
