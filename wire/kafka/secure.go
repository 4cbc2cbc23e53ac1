package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/mainstemdev/mainstem/wire/kafka/internal/bounds"
)

const (
	// maxUnlocked bounds the requests of clients that have not authenticated, in bytes, and
	// the bytes that decoding them takes.
	maxUnlocked = 64 << 10
	// keepCost is the number of bytes that decoding a request may take without a reservation.
	keepCost = 16 << 10
)

// secure does the TLS handshake, if the listener has TLS, and sets the time by which the
// client must have authenticated. Both share Options.AuthTimeout. It is the first step of a
// connection; an error ends it.
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

// sizes returns the least and the greatest size, in bytes, of the next request: at most what
// the budget of requests can ever have.
func (c *conn) sizes() (least, most int) {
	if !c.locked() {
		return headerSize, int(min(int64(c.s.o.MaxRequest), c.s.requests.Limit()))
	}
	if c.auth.raw {
		return 0, maxUnlocked
	}
	return headerSize, min(maxUnlocked, c.s.o.MaxRequest)
}

// afford computes how much memory decoding the body of a request takes, and how much its answer
// may take because of it, and reserves both with the memory of the request. It fails if the
// counts in the body do not fit its length, if the memory is more than the limit of one request,
// or if take fails.
func (c *conn) afford(h header, body []byte) error {
	c.expects = 0
	most := c.s.o.MaxRequest
	if c.locked() {
		most = maxUnlocked
	}
	cost, elements, err := bounds.Check(h.key, h.version, body, most)
	if err != nil {
		return err
	}
	answer := expected(h.key, elements, len(body))
	if answer <= smallAnswer {
		answer = 0
	}
	if cost <= keepCost && answer == 0 {
		return nil
	}
	all := len(body) + cost + answer
	if limit := c.s.requests.Limit(); answer > 0 && int64(all) > limit {
		return fmt.Errorf("%d elements in %d bytes, and their answer, may take %d bytes of memory: the limit is %d; send several smaller requests", elements, len(body), all, limit)
	}
	c.expects = answer
	return c.take(all)
}
