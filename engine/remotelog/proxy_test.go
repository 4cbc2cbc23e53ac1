package remotelog_test

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// proxy passes bytes between clients and a server, and misbehaves when told to.
type proxy struct {
	listener net.Listener
	server   atomic.Value // string: host:port
	running  sync.WaitGroup

	dropAnswers  atomic.Bool  // what the server sends is lost
	dropRequests atomic.Bool  // what clients send is lost
	lost         atomic.Int64 // what comes over connections from before the last call of lose is lost
	dropped      atomic.Int64 // bytes lost
	cutAfter     atomic.Int64 // bytes from the server, on average, after which a connection is cut; 0: never
	cuts         atomic.Int64 // connections cut so

	cutRequestsAt atomic.Int64 // bytes from clients, of all connections, after which one is cut, once; 0: never
	cutAnswersAt  atomic.Int64 // the same of bytes from the server

	mu    sync.Mutex
	conns map[net.Conn]struct{} // both sides of all connections
}

// newProxy starts a proxy before the server at host:port, until the test ends.
func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, conns: map[net.Conn]struct{}{}}
	p.server.Store(server)
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// proxied serves a log in memory behind a proxy, and opens a client of it.
func proxied(t testing.TB, o *remotelog.Options) (p *proxy, log *remotelog.Log, behind mainstem.Log) {
	t.Helper()
	behind = model.New(nil)
	p = newProxy(t, serve(t, behind, nil).Listener.Addr().String())
	return p, open(t, p.url(), o), behind
}

// lose has what the server sends lost, or what clients send, while call runs until lost reports
// that it was; then it cuts the connections, over which nothing more comes: the server may not have
// written its answer yet. It returns when call has.
func (p *proxy) lose(t testing.TB, what *atomic.Bool, call func(), description string, lost func() bool) {
	t.Helper()
	what.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	testkit.Eventually(t, description, lost)
	p.lost.Add(1)
	what.Store(false)
	p.cut()
	<-done
}

func (p *proxy) url() string { return "http://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server.Load().(string))
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		lost := p.lost.Load() // before the next cut
		p.mu.Unlock()
		p.running.Go(func() { p.pass(server, client, &p.dropRequests, lost, false) })
		p.running.Go(func() { p.pass(client, server, &p.dropAnswers, lost, true) })
	}
}

// pass copies from one side to the other until one of them ends, then ends both.
func (p *proxy) pass(to, from net.Conn, drop *atomic.Bool, lost int64, cuts bool) {
	once := &p.cutRequestsAt
	if cuts {
		once = &p.cutAnswersAt
	}
	defer func() {
		_ = to.Close()
		_ = from.Close()
		p.mu.Lock()
		delete(p.conns, to)
		delete(p.conns, from)
		p.mu.Unlock()
	}()
	buffer := make([]byte, 4<<10)
	left := int64(-1)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if drop.Load() || p.lost.Load() != lost {
			p.dropped.Add(int64(n))
			continue
		}
		if at := once.Load(); at > 0 && once.Add(-int64(n)) <= 0 {
			once.Store(0)
			_, _ = to.Write(buffer[:min(at, int64(n))])
			return
		}
		if average := p.cutAfter.Load(); cuts && average > 0 && left < 0 {
			left = 1 + rand.N(2*average)
		}
		if left >= 0 && int64(n) > left {
			_, _ = to.Write(buffer[:left]) // a part of a message, too
			p.cuts.Add(1)
			return
		}
		if left >= 0 {
			left -= int64(n)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// close ends the proxy: nothing listens at its address any more.
func (p *proxy) close() {
	_ = p.listener.Close()
	p.cut()
	p.running.Wait()
}
