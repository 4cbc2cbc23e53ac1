package testkit

import (
	"net"
	"sync"
)

// Pipes is a listener of connections within the process, which also work in a bubble of
// testing/synctest. Its methods may be called from many goroutines.
type Pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewPipes returns a listener. Who serves it closes it.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Accept returns the server's end of the next connection, or [net.ErrClosed] after Close.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial. It may be called twice.
func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr returns an address that says nothing.
func (p *Pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// Dial waits until the connection is accepted, and returns the client's end of it, or
// [net.ErrClosed] after Close.
func (p *Pipes) Dial() (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
