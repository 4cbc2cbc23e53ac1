package group

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// Coordinator looks after the groups of a log. Its methods may be called from
// many goroutines. Close it before the log.
type Coordinator struct {
	log    mainstem.Log
	topics coord.Topics
	o      Options

	ctx  context.Context // ends at Close
	stop context.CancelFunc
	wg   sync.WaitGroup // requests, timers and the sweeper

	restored chan struct{} // closed when the groups that have members were loaded
	lost     chan struct{} // says that one of them may not be in memory any more

	// mu is taken after a group's lock and never held while anything waits.
	mu struct {
		sync.Mutex
		groups  map[string]*group
		closed  bool
		changes uint64 // counts calls of TopicsChanged
		pending Pending
	}
}

// Open returns the groups of log, and begins in the background to watch the
// members of those that have some: they get a new session, as after a
// heartbeat. The log stays the caller's. One coordinator may be open on a log.
func Open(log mainstem.Log, topics coord.Topics, o *Options) (*Coordinator, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := &Coordinator{log: log, topics: topics, o: o.withDefaults()}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.mu.groups, c.restored = map[string]*group{}, make(chan struct{})
	c.lost = make(chan struct{}, 1)
	c.mu.pending = c.o.Pending
	c.wg.Go(c.upkeep)
	return c, nil
}

// Close answers what waits with COORDINATOR_NOT_AVAILABLE and ends all
// goroutines. Later requests are answered likewise. Closing twice is allowed.
func (c *Coordinator) Close() error {
	c.mu.Lock()
	c.mu.closed = true
	groups := make([]*group, 0, len(c.mu.groups))
	for _, g := range c.mu.groups {
		groups = append(groups, g)
	}
	c.mu.Unlock()
	c.stop()
	for _, g := range groups {
		g.mu.Lock()
		g.discard()
		g.mu.Unlock()
	}
	c.wg.Wait()
	return nil
}

// SetPending sets where offsets in open transactions are found. Call it before
// the first request.
func (c *Coordinator) SetPending(p Pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.pending = p
}

func (c *Coordinator) pending(group string, id topic.ID, partition int32) bool {
	c.mu.Lock()
	p := c.mu.pending
	c.mu.Unlock()
	return p != nil && p.Pending(group, id, partition)
}

// TopicsChanged says that topics were created, deleted or have grown: consumer
// groups look at the next heartbeat of any of their members. Without it they look
// every [Options.TopicsEvery].
func (c *Coordinator) TopicsChanged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.changes++
}

func (c *Coordinator) changes() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.changes
}

// enter begins something that Close has to wait for. If it returns true, the
// caller calls c.wg.Done.
func (c *Coordinator) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return false
	}
	c.wg.Add(1)
	return true
}

var (
	errClosed = mainstem.Refusef(mainstem.KindClosed, "group", "the coordinator is closed")
	errMany   = mainstem.Refusef(mainstem.KindUnavailable, "group", "there are too many groups").WithHint("raise MaxGroups")
)

// acquire returns the group called name, locked. If there is none it returns nil,
// or if create is true a new one, which is gone again at unlock unless somebody
// has joined it or has stored something.
func (c *Coordinator) acquire(ctx context.Context, name string, create bool) (*group, error) {
	for {
		g, err := c.held(name)
		if err != nil {
			return nil, err
		}
		g.mu.Lock()
		if g.gone {
			g.mu.Unlock()
			continue
		}
		if !g.loaded {
			if err := g.load(ctx); err != nil {
				g.discard()
				g.mu.Unlock()
				return nil, err
			}
		}
		if !create && !g.exists() {
			g.unlock()
			return nil, nil
		}
		return g, nil
	}
}

// held returns the group in memory called name, which may have to be loaded.
func (c *Coordinator) held(name string) (*group, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil, errClosed
	}
	g := c.mu.groups[name]
	if g == nil {
		if len(c.mu.groups) >= c.o.MaxGroups {
			return nil, errMany
		}
		g = newGroup(c, name)
		c.mu.groups[name] = g
	}
	return g, nil
}

// all returns the groups in memory.
func (c *Coordinator) all() []*group {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*group, 0, len(c.mu.groups))
	for _, g := range c.mu.groups {
		out = append(out, g)
	}
	return out
}

// now returns the time by the coordinator's clock.
func (c *Coordinator) now() time.Time { return c.o.Now() }

// code returns the error code for an error of the log. What is no passing
// trouble is logged, for the client learns only that it happened.
func (c *Coordinator) code(op, group string, err error) int16 {
	switch {
	case errors.Is(err, mainstem.ErrClosed), errors.Is(err, mainstem.ErrCanceled), errors.Is(err, context.Canceled):
		return kerr.CoordinatorNotAvailable.Code
	case errors.Is(err, mainstem.ErrInvalid):
		c.o.Logger.Warn("a group's request cannot be stored", "op", op, "group", group, "error", err)
		return kerr.InvalidRequest.Code
	case errors.Is(err, mainstem.ErrCorrupt):
		c.o.Logger.Error("what is stored of a group is damaged", "op", op, "group", group, "error", err)
		return kerr.UnknownServerError.Code
	}
	c.o.Logger.Warn("a group is not available", "op", op, "group", group, "error", err)
	return kerr.CoordinatorNotAvailable.Code
}
