package link_test

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy carries the connections of two nodes. It damages the first ones at random bytes, and leaves
// later ones alone.
type proxy struct {
	l       net.Listener
	target  string
	running sync.WaitGroup

	spoil   atomic.Int64 // how many connections are still to be spoiled
	spoiled atomic.Int64
	harm    func(*rand.Rand) harm
	reach   int // bytes within which a connection is spoiled

	mu    sync.Mutex
	rng   *rand.Rand
	conns map[net.Conn]bool
	shut  bool
	cut   bool // nothing gets through, new connections included

	hushed atomic.Int64 // connections numbered below it are silent
	number int64
}

// hush drops everything that the present connections carry, without closing them.
func (p *proxy) hush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hushed.Store(p.number)
}

// harm is what happens to one direction of a connection.
type harm int

const (
	cut      harm = iota // both directions end, all that was read before went through
	truncate             // the same, but some of it did not
	corrupt              // a bit is flipped
	silence              // nothing goes through any more
	delay                // everything takes a while
	harms
)

func newProxy(t testing.TB, target string, seed uint64) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{
		l: l, target: target, rng: rand.New(rand.NewPCG(seed, 1)), conns: make(map[net.Conn]bool), reach: 150_000,
		harm: func(r *rand.Rand) harm { return harm(r.IntN(int(harms))) },
	}
	p.running.Add(1)
	go p.accept()
	t.Cleanup(func() {
		_ = l.Close()
		p.cutAll(true)
		p.running.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) accept() {
	defer p.running.Done()
	for {
		from, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		to, err := net.Dial("tcp", target)
		if err != nil || !p.keep(from, to) {
			_ = from.Close()
			if err == nil {
				_ = to.Close()
			}
			continue
		}
		bad := p.spoil.Add(-1) >= 0
		if bad {
			p.spoiled.Add(1)
		}
		p.running.Add(2)
		go p.pump(from, to, p.plan(bad))
		go p.pump(to, from, p.plan(bad))
	}
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut || p.shut {
		return false
	}
	for _, c := range conns {
		p.conns[c] = true
	}
	p.number++
	return true
}

// cutAll ends all connections; while on, there are no new ones.
func (p *proxy) cutAll(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = on
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// plan says after how many bytes which harm is done.
type plan struct {
	harm   harm
	after  int
	rng    *rand.Rand
	number int64 // of the connection
}

func (p *proxy) plan(bad bool) plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := plan{after: -1, number: p.number, rng: rand.New(rand.NewPCG(p.rng.Uint64(), 2))}
	if bad {
		q.harm, q.after = p.harm(p.rng), p.rng.IntN(p.reach)
		if p.rng.IntN(4) == 0 {
			q.after = p.rng.IntN(600) // in the handshake
		}
	}
	return q
}

func (p *proxy) pump(from, to net.Conn, q plan) {
	defer p.running.Done()
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 8<<10)
	for {
		n, err := from.Read(buf)
		out := buf[:n]
		if q.number <= p.hushed.Load() {
			_, _ = io.Copy(io.Discard, from)
			return
		}
		if q.after >= 0 {
			if n <= q.after {
				q.after -= n
			} else if out = q.do(out); out == nil {
				_, _ = io.Copy(io.Discard, from)
				return
			} else if q.harm == cut || q.harm == truncate {
				_, _ = to.Write(out)
				return
			}
		}
		if _, failed := to.Write(out); failed != nil || err != nil {
			return
		}
	}
}

// do returns what goes through of what was read when harm is due; nil is silence.
func (q *plan) do(out []byte) []byte {
	switch q.harm {
	case truncate:
		return out[:q.after]
	case corrupt:
		out[q.after] ^= 1 << q.rng.IntN(8)
		q.after = -1
	case silence:
		return nil
	case delay:
		<-time.After(time.Duration(q.rng.IntN(5)) * time.Millisecond)
		q.after = q.rng.IntN(20_000)
	}
	return out
}
