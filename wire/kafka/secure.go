package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/bounds"
)

const (
	// maxUnlocked bounds the requests of clients that have yet to authenticate.
	maxUnlocked = 64 << 10
	// keepCost is what decoding a request may cost without being counted.
	keepCost = 64 << 10
)

// secure shakes hands, if the listener has TLS, and sets the time by which the client
// must have authenticated.
func (c *conn) secure() error {
	limit := time.Now().Add(c.s.o.AuthTimeout)
	if len(c.as.Mechanisms) > 0 {
		c.auth.until = limit
	}
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithDeadline(c.s.ctx, limit)
	defer cancel()
	if err := t.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	if chains := t.ConnectionState().VerifiedChains; len(chains) > 0 {
		c.identified("certificate", chains[0][0].Subject.String())
	}
	return nil
}

// sizes returns how large the next request may be.
func (c *conn) sizes() (least, most int) {
	if !c.locked() {
		return headerSize, c.s.o.MaxRequest
	}
	if c.auth.raw {
		return 0, maxUnlocked
	}
	return headerSize, min(maxUnlocked, c.s.o.MaxRequest)
}

// afford checks what it costs to decode the body of a request, and takes that much of
// what all decoded requests may cost. The function returned gives it back.
func (c *conn) afford(h header, body []byte) (release func(), err error) {
	most := c.s.o.MaxRequest
	if c.locked() {
		most = maxUnlocked
	}
	cost, err := bounds.Check(h.key, h.version, body, most)
	if err != nil {
		return nil, err
	}
	if cost <= keepCost {
		return func() {}, nil
	}
	// Who waits here holds the memory of a request, but who is ahead needs no more of
	// that: they never wait for each other.
	ctx, cancel := context.WithTimeout(c.ctx, c.s.o.WriteTimeout)
	defer cancel()
	if err := c.s.decoded.Acquire(ctx, int64(cost)); err != nil {
		return nil, fmt.Errorf("no memory to decode it within %s: %w", c.s.o.WriteTimeout, err)
	}
	return func() { c.s.decoded.Release(int64(cost)) }, nil
}
