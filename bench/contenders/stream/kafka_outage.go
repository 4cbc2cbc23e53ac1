package stream

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// outagePatience is how long a server may refuse connections. Tests shorten it.
var outagePatience = 5 * time.Second

// conn is a client of franz-go that gives up when its server is gone: left to itself
// it waits for it to return, however long that takes, and says nothing. It looks on
// from hooks, which cost the operations that are timed next to nothing.
type conn struct {
	*kgo.Client
	close   func()      // closes the client, once
	refused atomic.Bool // since the last answer

	mu struct {
		sync.Mutex
		since time.Time // the first refused connection since the last answer
		cause error     // why the client was given up
	}
}

// connect returns a client with hooks; it connects when it is used.
func connect(o ...kgo.Opt) (*conn, error) {
	c := &conn{}
	client, err := kgo.NewClient(append(o, kgo.WithHooks(c))...)
	if err != nil {
		return nil, err
	}
	c.Client, c.close = client, sync.OnceFunc(client.Close)
	return c, nil
}

// Close closes the client. It may be called again.
func (c *conn) Close() error {
	c.close()
	return nil
}

// OnBrokerConnect implements [kgo.HookBrokerConnect].
func (c *conn) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil {
		c.answered()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused.Store(true)
	switch {
	case c.mu.since.IsZero():
		c.mu.since = time.Now()
	case c.mu.cause == nil && time.Since(c.mu.since) >= outagePatience:
		c.mu.cause = fmt.Errorf("the server has refused connections for %v: %w", time.Since(c.mu.since).Round(time.Millisecond), err)
		go c.close() // it waits for the hook to return
	}
}

// OnBrokerRead implements [kgo.HookBrokerRead].
func (c *conn) OnBrokerRead(_ kgo.BrokerMetadata, _ int16, _ int, _, _ time.Duration, err error) {
	if err == nil && c.refused.Load() {
		c.answered()
	}
}

func (c *conn) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused.Store(false)
	c.mu.since = time.Time{}
}

// explain returns why the client was given up, if it was: franz-go's error would only
// say that it is closed.
func (c *conn) explain(err error) error {
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.cause != nil {
		return c.mu.cause
	}
	return err
}
