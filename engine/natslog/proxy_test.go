package natslog_test

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy passes bytes between clients and a server, and loses them when told to.
type proxy struct {
	listener net.Listener
	server   string // host:port
	running  sync.WaitGroup

	dropAnswers  atomic.Bool  // what the server sends is lost
	dropRequests atomic.Bool  // what clients send is lost
	cuts         atomic.Int32 // what comes over connections from before the last cut is lost

	onRequest atomic.Pointer[func(bytes []byte)] // is called before what clients send is passed on

	mu    sync.Mutex
	conns map[net.Conn]struct{} // both sides of all connections
}

// newProxy starts a proxy before the server at a URL, until the test ends.
func newProxy(t *testing.T, url string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, server: strings.TrimPrefix(url, "nats://"), conns: map[net.Conn]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) url() string { return "nats://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		cuts := p.cuts.Load()
		p.running.Go(func() { p.pass(server, client, &p.dropRequests, cuts) })
		p.running.Go(func() { p.pass(client, server, &p.dropAnswers, cuts) })
	}
}

// pass copies from one side to the other until one of them ends, then ends both.
func (p *proxy) pass(to, from net.Conn, drop *atomic.Bool, cuts int32) {
	defer func() {
		_ = to.Close()
		_ = from.Close()
		p.mu.Lock()
		delete(p.conns, to)
		delete(p.conns, from)
		p.mu.Unlock()
	}()
	buffer := make([]byte, 4<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if see := p.onRequest.Load(); see != nil && drop == &p.dropRequests {
			(*see)(buffer[:n])
		}
		if drop.Load() || p.cuts.Load() != cuts {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cut loses everything on the connections there are, as when a host is gone: neither side
// is told.
func (p *proxy) cut() { p.cuts.Add(1) }

// heal ends all connections, whose streams have holes, and loses nothing from now on.
func (p *proxy) heal() {
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.dropAnswers.Store(false)
	p.dropRequests.Store(false)
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.heal()
	p.running.Wait()
}
