package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// server is one object server of a cluster, with its circuit breaker: after a number
// of failures in a row it is left alone for a while, until a check finds it well. A failure is
// a connection that cannot be made or is lost, or a check that fails; a statement that succeeds
// ends the row.
type server struct {
	address string
	backend Backend

	mu struct {
		sync.Mutex
		failures int       // in a row
		until    time.Time // left alone
		last     error
	}
}

// open reports whether the breaker is open: the server is left alone.
func (s *server) open(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Before(s.mu.until)
}

// failed counts a failure and reports whether it opened the breaker.
func (s *server) failed(err error, most int, delay time.Duration) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.failures++
	s.mu.last = err
	if s.mu.failures < most {
		return false
	}
	opened := !now.Before(s.mu.until)
	s.mu.until = now.Add(delay)
	return opened
}

func (s *server) well() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.failures, s.mu.until, s.mu.last = 0, time.Time{}, nil
}

// state describes the server, for who looks whether the coordinator is well.
func (s *server) state() (failures int, last error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.failures, s.mu.last
}

// cluster is object servers of which one is asked at a time: the current one.
type cluster struct {
	name    string
	servers []*server
	o       *OMNIConfig
	pool    *pool
	logger  *slog.Logger
	metrics *clusterMetrics

	mu struct {
		sync.Mutex
		current int
		since   time.Time // when the current server became it
		moves   int       // how often another became it
	}
}

func newCluster(name string, servers []*server, o *OMNIConfig, logger *slog.Logger, m *clusterMetrics) *cluster {
	c := &cluster{name: name, servers: servers, o: o, logger: logger, metrics: m}
	c.pool = newPool(o, c.connect)
	return c
}

// turn is a server while it is the current one. It is another turn when it is again.
type turn struct{ server, moves int }

// current returns whose turn it is.
func (c *cluster) current() turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return turn{c.mu.current, c.mu.moves}
}

// order returns the servers in the order in which they are tried: first, which is the current
// one, then the rest, in a ring or at random.
func (c *cluster) order(first int) []int {
	n := len(c.servers)
	order := make([]int, n)
	for i := range order {
		order[i] = (first + i) % n
	}
	if c.o.RandomFailOver && !*c.o.FailBack {
		rest := order[1:]
		rand.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	}
	return order
}

// connect connects to the first server that can be reached, which becomes the
// current one. A server that refuses the credential is not at fault, and no other
// is asked.
func (c *cluster) connect(ctx context.Context, cred Credential) (Conn, int, error) {
	var errs []error
	from := c.current()
	for _, i := range c.order(from.server) {
		s := c.servers[i]
		if s.open(time.Now()) {
			_, last := s.state()
			errs = append(errs, fmt.Errorf("%s: left alone after %d failures, the last: %w", s.address, c.o.BreakerFailures, last))
			continue
		}
		var conn Conn
		err := c.guarded(func() (err error) {
			conn, err = s.backend.Connect(ctx, cred)
			return err
		})
		switch {
		case err == nil:
			c.moveTo(from, i, "the server before could not be reached")
			return conn, i, nil
		case ctx.Err() != nil:
			return nil, 0, &connectError{canceled(ctx)}
		case errors.Is(err, errPanicked):
			return nil, 0, err
		case !lost(err):
			return nil, 0, &connectError{fmt.Errorf("%s: %w", s.address, err)}
		}
		c.fault(i, err)
		errs = append(errs, fmt.Errorf("%s: %w", s.address, err))
	}
	return nil, 0, &connectError{&mainstem.Error{Kind: mainstem.KindUnavailable, Op: "coordinator", Outcome: mainstem.NotWritten, Err: errors.Join(errs...)}}
}

// errPanicked is the cause of an error where a backend panicked.
var errPanicked = errors.New("the code of a server panicked: a bug, see the log of the coordinator")

// guarded calls a backend. A panic is an error of this call alone.
func (c *cluster) guarded(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.logger.Error("coordinator: a server panicked", "cluster", c.name, "panic", p, "stack", string(debug.Stack()))
			err = &mainstem.Error{Kind: mainstem.KindInternal, Op: "coordinator", Outcome: mainstem.Unknown, Err: errPanicked}
		}
	}()
	return call()
}

// fault notes a failure of a server. When its breaker opens, what is running there is
// ended: it may be asked elsewhere.
func (c *cluster) fault(i int, err error) {
	if c.servers[i].failed(err, c.o.BreakerFailures, c.o.BreakerDelay) {
		c.logger.Warn("coordinator: a server is left alone", "cluster", c.name, "server", c.servers[i].address, "for", c.o.BreakerDelay, "error", err)
		c.metrics.opened.Inc()
		c.pool.abort(i)
	}
}

// moveTo makes server i the current one if it is still the turn from.
func (c *cluster) moveTo(from turn, i int, why string) {
	c.mu.Lock()
	moved := c.mu.moves == from.moves && i != from.server
	if moved {
		c.mu.current, c.mu.since = i, time.Now()
		c.mu.moves++
		c.pool.move(i) // under the lock, so that the pool sees the moves in their order
	}
	c.mu.Unlock()
	if !moved {
		return
	}
	c.logger.Warn("coordinator: a cluster moved to another server", "cluster", c.name, "from", c.servers[from.server].address, "to", c.servers[i].address, "because", why)
	if i == 0 {
		c.metrics.failbacks.Inc()
	} else {
		c.metrics.failovers.Inc()
	}
	c.pool.sweep()
}

// query runs statements and gives the rows to out. It asks again, and elsewhere, if the
// server was lost and the statements are safe to repeat.
func (c *cluster) query(ctx context.Context, key credentialKey, cred Credential, sql string, out *entry) error {
	for attempt := 1; ; attempt++ {
		conn, err := c.pool.acquire(ctx, key, cred, c.o.WaitTimeout)
		if err != nil {
			return err
		}
		began := time.Now()
		err = c.guarded(func() (err error) {
			out.affected, err = conn.conn.Query(ctx, sql, out.row)
			return err
		})
		if err == nil {
			c.pool.release(conn, false)
			c.servers[conn.server].well()
			return nil
		}
		wrong := refusedLogin(err)
		gone := lost(err) && ctx.Err() == nil && !errors.Is(err, errGone)
		c.pool.release(conn, gone || wrong || ctx.Err() != nil || errors.Is(err, errPanicked))
		switch {
		case ctx.Err() != nil:
			e := mainstem.Ended(ctx, "coordinator", began, "the answer of "+c.servers[conn.server].address)
			e.Outcome = outcomeOf(err)
			return e
		case wrong:
			return &connectError{fmt.Errorf("%s: %w", c.servers[conn.server].address, err)}
		case !gone:
			return err
		}
		if !isAnswer(err) {
			c.fault(conn.server, err)
		} else if c.ping(ctx, conn.server) {
			return err // it is this statement that the server cannot serve
		}
		if attempt >= c.attempts() || !out.reset() || !repeatable(err, sql) {
			return err
		}
		c.metrics.retries.Inc()
	}
}

// attempts is how often a statement is tried: until every server had the failures
// that open its breaker.
func (c *cluster) attempts() int { return len(c.servers)*c.o.BreakerFailures + 1 }

func outcomeOf(err error) mainstem.Outcome {
	var e *mainstem.Error
	if errors.As(err, &e) {
		return e.Outcome
	}
	return mainstem.Unknown
}

// repeatable reports whether statements may be sent again after err: they only read,
// or certainly were not carried out.
func repeatable(err error, sql string) bool {
	if outcomeOf(err) == mainstem.NotWritten {
		return true
	}
	statements, err := osql.Split(sql, nil)
	if err != nil {
		return false
	}
	for i := range statements {
		if v := strings.ToUpper(statements[i].Verb()); v != "SELECT" && v != "DESCRIBE" {
			return false
		}
	}
	return true
}

// watch checks the servers until ctx ends.
func (c *cluster) watch(ctx context.Context) {
	every := c.o.HealthInterval
	if *c.o.FailBack {
		every = min(every, c.o.FailBackDelay)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			c.check(ctx)
		}
	}
}

// check looks at the current server and at those that were left alone, moves away from
// one that is ill, and back to the first when that is due.
func (c *cluster) check(ctx context.Context) {
	c.pool.sweep()
	now := time.Now()
	current := c.current()
	c.mu.Lock()
	back := *c.o.FailBack && current.server != 0 && now.Sub(c.mu.since) >= c.o.FailBackDelay
	c.mu.Unlock()
	var checks sync.WaitGroup
	for i, s := range c.servers {
		failures, _ := s.state()
		if i == current.server || failures > 0 || i == 0 && back {
			checks.Go(func() { c.ping(ctx, i) })
		}
	}
	checks.Wait()
	if ctx.Err() != nil {
		return
	}
	switch {
	case c.servers[current.server].open(time.Now()):
		for _, i := range c.order(current.server)[1:] {
			if c.ping(ctx, i) {
				c.moveTo(current, i, "checks of the server before failed")
				return
			}
		}
	case back:
		if failures, _ := c.servers[0].state(); failures == 0 {
			c.moveTo(current, 0, "the first server is back")
		}
	}
}

// ping checks a server, and reports whether it is well.
func (c *cluster) ping(ctx context.Context, i int) bool {
	check, cancel := context.WithTimeout(ctx, c.o.HealthTimeout)
	defer cancel()
	err := c.guarded(func() error { return c.servers[i].backend.Ping(check) })
	switch {
	case err == nil:
		c.servers[i].well()
	case ctx.Err() != nil: // that says nothing about the server
	default:
		c.fault(i, err)
	}
	return err == nil
}

// ready reports whether some server of the cluster is not left alone.
func (c *cluster) ready() bool {
	now := time.Now()
	for _, s := range c.servers {
		if !s.open(now) {
			return true
		}
	}
	return false
}
