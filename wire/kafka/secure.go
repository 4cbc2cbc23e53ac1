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
	keepCost = 16 << 10
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
		return headerSize, int(min(int64(c.s.o.MaxRequest), c.s.requests.Limit()))
	}
	if c.auth.raw {
		return 0, maxUnlocked
	}
	return headerSize, min(maxUnlocked, c.s.o.MaxRequest)
}

// afford checks what it costs to decode the body of a request, and takes that much memory
// besides that of the request itself.
func (c *conn) afford(h header, body []byte) error {
	most := c.s.o.MaxRequest
	if c.locked() {
		most = maxUnlocked
	}
	cost, err := bounds.Check(h.key, h.version, body, most)
	if err != nil || cost <= keepCost {
		return err
	}
	return c.take(len(body) + cost)
}
