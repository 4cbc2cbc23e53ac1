package link_test

import (
	"crypto/tls"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/actor/cluster/devca"
	"github.com/mainstemdev/mainstem/actor/cluster/link"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// messageSize is what Ergo's frame of its ping benchmark has.
const messageSize = 42

// counter counts messages, and reports when there are enough.
type counter struct {
	hears
	left [8]struct {
		atomic.Int64
		_ [56]byte
	}
	done chan struct{}
}

func (c *counter) Message(_ *link.Peer, lane uint32, _ []byte) {
	if c.left[lane&7].Add(-1) == 0 {
		c.done <- struct{}{}
	}
}

// secured returns options for a node with TLS.
func secured(t testing.TB, ca *devca.Authority, name string) *link.Options {
	t.Helper()
	o := plain(name)
	o.Plain = false
	cert, err := ca.Issue(name)
	if err != nil {
		t.Fatal(err)
	}
	o.TLS = &link.TLS{Certificate: cert, Roots: ca.Roots()}
	return o
}

func authority(t testing.TB) *devca.Authority {
	t.Helper()
	ca, err := devca.New()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// pair returns the session of a with b.
func pair(b *testing.B, encrypted bool, connections int, h link.Handler) *link.Peer {
	b.Helper()
	oa, ob := plain("a"), plain("b")
	if encrypted {
		ca := authority(b)
		oa, ob = secured(b, ca, "a"), secured(b, ca, "b")
	}
	oa.Connections, ob.Connections = connections, connections
	eb := open(b, ob, h)
	oa.Resolve = at(eb)
	p := peer(b, open(b, oa, &hears{}), "b")
	testkit.Eventually(b, "connections", func() bool { return p.Stats().Connected == connections })
	return p
}

// BenchmarkStream sends 42-byte messages from one goroutine per lane: the rate is
// that of messages handled.
func BenchmarkStream(b *testing.B) {
	for _, c := range []struct {
		name      string
		encrypted bool
		pairs     int
		mode      link.Mode
	}{
		{"plain", false, 1, link.ExactlyOnce},
		{"plain-at-most-once", false, 1, link.AtMostOnce},
		{"tls", true, 1, link.ExactlyOnce},
		{"tls-at-most-once", true, 1, link.AtMostOnce},
		{"plain-two-pairs", false, 2, link.ExactlyOnce},
		{"tls-two-pairs", true, 2, link.ExactlyOnce},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := &counter{done: make(chan struct{}, 8)}
			p := pair(b, c.encrypted, c.pairs, h)
			stream(b, p, h, c.pairs, c.mode)
		})
	}
}

func stream(b *testing.B, p *link.Peer, h *counter, pairs int, mode link.Mode) {
	body := make([]byte, messageSize)
	ctx := within(b)
	b.SetBytes(messageSize)
	b.ReportAllocs()
	b.ResetTimer()
	for lane := range pairs {
		share := b.N / pairs
		if lane == 0 {
			share = b.N - share*(pairs-1)
		}
		h.left[lane].Store(int64(share))
		go func() {
			for range share {
				if err := p.Send(ctx, uint32(lane), mode, func(dst []byte) ([]byte, error) { return append(dst, body...), nil }); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	for lane := range pairs {
		if h.left[lane].Load() != 0 || b.N >= pairs {
			<-h.done
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
}

// BenchmarkRawStream writes the same bytes over TCP, in writes of 64 KiB: the baseline.
func BenchmarkRawStream(b *testing.B) {
	from, to := tcpPair(b)
	go func() {
		buf := make([]byte, 64<<10)
		for left := b.N * (messageSize + 4); left > 0; {
			n, err := from.Write(buf[:min(left, len(buf))])
			if err != nil {
				return
			}
			left -= n
		}
	}()
	b.SetBytes(messageSize)
	b.ResetTimer()
	if _, err := io.CopyN(discard{make([]byte, 128<<10)}, to, int64(b.N*(messageSize+4))); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
}

type discard struct{ buf []byte }

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func (d discard) ReadFrom(r io.Reader) (n int64, err error) {
	for {
		m, err := r.Read(d.buf)
		n += int64(m)
		if err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

func tcpPair(b *testing.B) (net.Conn, net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	from, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	to, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = from.Close(), to.Close() })
	return from, to
}

// BenchmarkPingPong sends a message there and back, over a raw connection and over
// links in turns: p50 of both and their ratio.
func BenchmarkPingPong(b *testing.B) {
	for _, encrypted := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "tls"}[encrypted]
		b.Run(name, func(b *testing.B) { pingPong(b, encrypted) })
	}
}

func pingPong(b *testing.B, encrypted bool) {
	oa, ob := plain("a"), plain("b")
	var ca *devca.Authority
	if encrypted {
		ca = authority(b)
		oa, ob = secured(b, ca, "a"), secured(b, ca, "b")
	}
	oa.Connections = 1
	body := make([]byte, messageSize)
	back := make(chan struct{}, 1)
	appendBody := bytesOf(body)
	eb := open(b, ob, &hears{message: func(p *link.Peer, lane uint32, _ []byte) { _ = p.Send(noWait, lane, link.ExactlyOnce, appendBody) }})
	oa.Resolve = at(eb)
	p := peer(b, open(b, oa, &hears{message: func(*link.Peer, uint32, []byte) { back <- struct{}{} }}), "b")
	raw := rawPinger(b, ca)
	var linked, raws []time.Duration
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		if i/256%2 == 0 {
			raws = append(raws, raw())
			continue
		}
		start := time.Now()
		if err := p.Send(noWait, 1, link.ExactlyOnce, appendBody); err != nil {
			b.Fatal(err)
		}
		<-back
		linked = append(linked, time.Since(start))
	}
	if len(linked) == 0 {
		return
	}
	slices.Sort(linked)
	slices.Sort(raws)
	l, r := linked[len(linked)/2], raws[len(raws)/2]
	b.ReportMetric(float64(l.Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(r.Nanoseconds()), "raw-p50-ns")
	b.ReportMetric(float64(l)/float64(r), "ratio")
}

// rawPinger returns a function that sends messageSize bytes there and back, to an
// actor-like reader that gives them to another goroutine.
func rawPinger(b *testing.B, ca *devca.Authority) func() time.Duration {
	from, to := tcpPair(b)
	if ca != nil {
		cert, err := ca.Issue("raw")
		if err != nil {
			b.Fatal(err)
		}
		to = tls.Server(to, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13})
		from = tls.Client(from, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	}
	var once sync.Once
	buf := make([]byte, messageSize)
	return func() time.Duration {
		once.Do(func() { go echo(to) })
		start := time.Now()
		if _, err := from.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(from, buf); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
}

func echo(c net.Conn) {
	buf := make([]byte, messageSize)
	for {
		if _, err := io.ReadFull(c, buf); err != nil {
			return
		}
		if _, err := c.Write(buf); err != nil {
			return
		}
	}
}
