package cluster_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy passes connections on, until it cuts them.
type proxy struct {
	l    net.Listener
	to   string
	wg   sync.WaitGroup
	gate sync.RWMutex // held for reading by each write; see hold
	mu   sync.Mutex   // guards the fields below
	open map[net.Conn]struct{}
	shut bool
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, to: to, open: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.cut(true)
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.pass(c) })
	}
}

func (p *proxy) pass(c net.Conn) {
	defer c.Close()
	d, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer d.Close()
	p.mu.Lock()
	if p.shut {
		p.mu.Unlock()
		return
	}
	p.open[c], p.open[d] = struct{}{}, struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{c: d, d: c} {
		both.Go(func() {
			_, _ = io.Copy(gated{to, p}, from)
			to.Close()
			from.Close()
		})
	}
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
	delete(p.open, d)
}

// gated writes to a connection of a proxy unless that holds what it carries.
type gated struct {
	io.Writer
	p *proxy
}

func (g gated) Write(b []byte) (int, error) {
	g.p.gate.RLock()
	defer g.p.gate.RUnlock()
	return g.Writer.Write(b)
}

// hold keeps back all that comes from now on, with the connections open, until release.
func (p *proxy) hold() (release func()) {
	p.gate.Lock()
	return sync.OnceFunc(p.gate.Unlock)
}

// cut breaks all connections, and lets no others through if it is for long.
func (p *proxy) cut(long bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = long
	for c := range p.open {
		c.Close()
	}
}
