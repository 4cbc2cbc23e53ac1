// Package proxy stands between a Kafka client and its broker, and cuts their
// connections.
//
// A client that asks a broker where the cluster is would go around any plain
// proxy. So this one reads the frames that pass: in the answers that name brokers
// it writes its own address, and it can cut exactly where it hurts, for example
// between a produce that the broker has done and the answer to it.
//
//	p, err := proxy.Start(broker)
//	defer p.Close()
//	p.Cut(func(c proxy.Crossing) bool { return c.Answer && c.Key == 0 && rand.IntN(5) == 0 })
//	client := dial(p.Address())
//
// # Concurrency and ownership
//
// Methods of [Proxy] may be called by any goroutine, but Vanish, Return and Close by
// one at a time. Vanish and Close wait for all that was started. The function given to Cut is called by many goroutines.
//
// # Limits
//
// Frames up to [MaxFrame] bytes. A request with a key that package kmsg does not
// know passes unread.
//
//snippet:import "math/rand/v2"
//snippet:var broker string
//snippet:var dial func(string) io.Closer
package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem/interop/kafka/freeport"
)

// MaxFrame bounds what is held in memory of one message.
const MaxFrame = 128 << 20

// Crossing is a message about to pass.
type Crossing struct {
	Key    int16 // of the API
	Answer bool  // from broker to client
}

// Proxy forwards connections to one broker.
type Proxy struct {
	broker  string
	host    string
	port    int32
	address string
	wg      sync.WaitGroup
	cut     atomic.Pointer[func(Crossing) bool]
	cuts    atomic.Int64

	mu       sync.Mutex
	listener net.Listener // nil while the proxy has vanished
	conns    map[net.Conn]bool
}

// Start listens on a free port of loopback, which stays the proxy's while it has vanished.
func Start(broker string) (*Proxy, error) {
	address, err := freeport.Address()
	var l net.Listener
	if err == nil {
		l, err = net.Listen("tcp", address)
	}
	if err != nil {
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	a := l.Addr().(*net.TCPAddr)
	p := &Proxy{broker: broker, address: a.String(), host: a.IP.String(), port: int32(a.Port), listener: l, conns: map[net.Conn]bool{}}
	p.wg.Add(1)
	go p.accept(l)
	return p, nil
}

// Address is what clients connect to.
func (p *Proxy) Address() string { return p.address }

// Cut makes the proxy ask f before each message passes; where f says true, the
// message is dropped and its connection reset. nil never cuts.
func (p *Proxy) Cut(f func(Crossing) bool) {
	if f == nil {
		p.cut.Store(nil)
		return
	}
	p.cut.Store(&f)
}

// Cuts counts the connections that Cut has reset.
func (p *Proxy) Cuts() int { return int(p.cuts.Load()) }

// Vanish resets every connection, accepts no more, and waits for all that was
// started: to its clients the broker is gone.
func (p *Proxy) Vanish() {
	p.mu.Lock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
		for c := range p.conns {
			reset(c)
		}
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// Return undoes Vanish, at the same address.
func (p *Proxy) Return() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		return fmt.Errorf("return at %s: %w", p.address, err)
	}
	p.listener = l
	p.wg.Add(1)
	go p.accept(l)
	return nil
}

// Close is Vanish for good.
func (p *Proxy) Close() { p.Vanish() }

// reset ends a connection without a goodbye.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

func (p *Proxy) accept(l net.Listener) {
	defer p.wg.Done()
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		p.wg.Add(1)
		go p.serve(client)
	}
}

// track remembers a connection so that Vanish can end it; false means too late.
func (p *Proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) serve(client net.Conn) {
	defer p.wg.Done()
	defer reset(client)
	if !p.track(client) {
		return
	}
	defer p.forget(client)
	broker, err := net.Dial("tcp", p.broker)
	if err != nil {
		return
	}
	defer reset(broker)
	if !p.track(broker) {
		return
	}
	defer p.forget(broker)
	s := &session{proxy: p, asked: map[int32]question{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.pump(broker, client, s.request)
		reset(client)
		reset(broker)
	}()
	s.pump(client, broker, s.answer)
	reset(client)
	reset(broker)
	<-done
}

// session is one connection: the answers that are awaited, by correlation id.
type session struct {
	proxy *Proxy
	mu    sync.Mutex
	asked map[int32]question
}

type question struct{ key, version int16 }

var errCut = errors.New("cut")

// pump forwards frames until one side ends or the connection is cut.
func (s *session) pump(to io.Writer, from io.Reader, look func([]byte) ([]byte, error)) {
	for {
		size := make([]byte, 4)
		if _, err := io.ReadFull(from, size); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(size)
		if n > MaxFrame {
			return
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		frame, err := look(frame)
		if err != nil {
			s.proxy.cuts.Add(1)
			return
		}
		binary.BigEndian.PutUint32(size, uint32(len(frame)))
		if _, err := to.Write(append(size, frame...)); err != nil {
			return
		}
	}
}

func (s *session) allow(c Crossing) error {
	if f := s.proxy.cut.Load(); f != nil && (*f)(c) {
		return errCut
	}
	return nil
}

// request remembers how the answer has to be read: key(2) version(2) correlation(4).
func (s *session) request(frame []byte) ([]byte, error) {
	if len(frame) < 8 {
		return frame, nil
	}
	q := question{int16(binary.BigEndian.Uint16(frame)), int16(binary.BigEndian.Uint16(frame[2:]))}
	s.mu.Lock()
	s.asked[int32(binary.BigEndian.Uint32(frame[4:]))] = q
	s.mu.Unlock()
	return frame, s.allow(Crossing{Key: q.key})
}

func (s *session) answer(frame []byte) ([]byte, error) {
	if len(frame) < 4 {
		return frame, nil
	}
	id := int32(binary.BigEndian.Uint32(frame))
	s.mu.Lock()
	q, known := s.asked[id]
	delete(s.asked, id)
	s.mu.Unlock()
	if !known {
		return frame, nil
	}
	return s.proxy.rewrite(q, frame), s.allow(Crossing{Key: q.key, Answer: true})
}

// rewrite puts the proxy's address where an answer names brokers.
func (p *Proxy) rewrite(q question, frame []byte) []byte {
	req := kmsg.RequestForKey(q.key)
	if req == nil {
		return frame
	}
	req.SetVersion(q.version)
	resp := req.ResponseKind()
	header := 4
	if resp.IsFlexible() {
		header++ // the empty tags; never for ApiVersions, which is not rewritten
	}
	switch resp.(type) {
	case *kmsg.MetadataResponse, *kmsg.FindCoordinatorResponse, *kmsg.DescribeClusterResponse:
	default:
		return frame
	}
	if len(frame) < header || resp.ReadFrom(frame[header:]) != nil {
		return frame
	}
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			r.Brokers[i].Host, r.Brokers[i].Port = p.host, p.port
		}
	case *kmsg.FindCoordinatorResponse:
		if r.ErrorCode == 0 {
			r.Host, r.Port = p.host, p.port
		}
		for i := range r.Coordinators {
			r.Coordinators[i].Host, r.Coordinators[i].Port = p.host, p.port
		}
	case *kmsg.DescribeClusterResponse:
		for i := range r.Brokers {
			r.Brokers[i].Host, r.Brokers[i].Port = p.host, p.port
		}
	}
	return resp.AppendTo(append([]byte(nil), frame[:header]...))
}
