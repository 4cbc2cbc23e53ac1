package actor

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/actor"
)

// rawTCP is connections and nothing else: no names, no acknowledgements, no flow
// control but TCP's. It is what a network of actors can come close to.
func rawTCP() actor.Factory {
	return actor.Factory{
		Name: "raw-tcp", NetworkOnly: true, Network: suite.LoopbackTCP,
		Note: "eight bytes for an integer over one connection for each pair, buffered by 64 KiB in bursts; a value for subscribers crosses once for each node, where a goroutine hands it to a channel for each",
		Ping: tcpPing, Ask: tcpAsk, Publish: tcpPublish,
	}
}

const (
	word   = 8
	buffer = 64 << 10
)

// wire is both ends of a connection, and the goroutine that serves the far one.
type wire struct {
	net.Conn
	served sync.WaitGroup
}

// dial connects to a goroutine that runs serve until it returns.
func dial(ctx context.Context, serve func(net.Conn)) (*wire, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return dialOn(ctx, l, serve)
}

// dialOn connects to l, which it closes.
func dialOn(ctx context.Context, l net.Listener, serve func(net.Conn)) (*wire, error) {
	defer l.Close()
	w := &wire{}
	accepted := make(chan struct{})
	w.served.Go(func() {
		c, err := l.Accept()
		close(accepted)
		if err == nil {
			serve(c)
			_ = c.Close() // it has been read to its end
		}
	})
	var err error
	if w.Conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String()); err != nil {
		_ = l.Close() // ends Accept
		w.served.Wait()
		return nil, err
	}
	<-accepted // a connection that waits to be accepted is reset when its listener closes
	return w, nil
}

// Close closes the connection and waits for the far end.
func (w *wire) Close() error {
	err := w.Conn.Close()
	w.served.Wait()
	return err
}

type wires []*wire

// Close closes all of them.
func (ws wires) Close() error {
	var errs []error
	for _, w := range ws {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}

type tcpPinger struct{ wires }

func tcpPing(ctx context.Context, _ bool, sinks []*actor.Sink) (actor.Pinger, error) {
	p := &tcpPinger{}
	for _, s := range sinks {
		w, err := dial(ctx, func(c net.Conn) {
			r := bufio.NewReaderSize(c, buffer)
			for {
				b, err := r.Peek(word)
				if err != nil {
					return
				}
				s.Receive(int(binary.BigEndian.Uint64(b)))
				_, _ = r.Discard(word) // it was peeked
			}
		})
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.wires = append(p.wires, w)
	}
	return p, nil
}

func (p *tcpPinger) Burst(_ context.Context, counts []int) error {
	errs := make([]error, len(counts))
	var senders sync.WaitGroup
	for i, n := range counts {
		senders.Go(func() {
			w := bufio.NewWriterSize(p.wires[i], buffer)
			var b [word]byte
			for v := range n {
				binary.BigEndian.PutUint64(b[:], uint64(actor.Message(v)))
				_, _ = w.Write(b[:]) // Flush returns the error
			}
			errs[i] = w.Flush()
		})
	}
	senders.Wait()
	return errors.Join(errs...)
}

type tcpAsker struct {
	*wire
	b [word]byte
}

func tcpAsk(ctx context.Context, _ bool) (actor.Asker, error) {
	w, err := dial(ctx, func(c net.Conn) {
		var b [word]byte
		for {
			if _, err := io.ReadFull(c, b[:]); err != nil {
				return
			}
			binary.BigEndian.PutUint64(b[:], binary.BigEndian.Uint64(b[:])+1)
			if _, err := c.Write(b[:]); err != nil {
				return
			}
		}
	})
	return &tcpAsker{wire: w}, err
}

func (a *tcpAsker) Ask(_ context.Context, v int) (int, error) {
	binary.BigEndian.PutUint64(a.b[:], uint64(v))
	if _, err := a.Write(a.b[:]); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(a, a.b[:])
	return int(binary.BigEndian.Uint64(a.b[:])), err
}

// tcpPublisher writes to a connection for each node, whose far end hands on.
type tcpPublisher struct {
	wires
	nodes []*fanOut
}

func tcpPublish(ctx context.Context, a *actor.Audience) (actor.Publisher, error) {
	p := &tcpPublisher{}
	for i := range a.Nodes {
		f := &fanOut{}
		f.subscribe(a, i)
		p.nodes = append(p.nodes, f)
		w, err := dial(ctx, func(c net.Conn) {
			r := bufio.NewReader(c)
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				_ = f.Publish(ctx, line[:len(line)-1]) // it never fails
			}
		})
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.wires = append(p.wires, w)
	}
	return p, nil
}

func (p *tcpPublisher) Publish(_ context.Context, text string) error {
	for _, w := range p.wires {
		if _, err := io.WriteString(w, text+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func (p *tcpPublisher) Close() error {
	err := p.wires.Close()
	for _, f := range p.nodes {
		_ = f.Close() // it never fails
	}
	return err
}
