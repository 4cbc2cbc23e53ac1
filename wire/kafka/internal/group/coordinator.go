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

// Coordinator coordinates the groups of a log. Its methods may be called from several goroutines.
// Close it before the log.
type Coordinator struct {
	log    mainstem.Log
	topics coord.Topics
	o      Options

	ctx  context.Context // ends at Close
	stop context.CancelFunc
	wg   sync.WaitGroup // requests, timers and the sweeper

	restored chan struct{} // closed after the first attempt to load all groups that have members
	lost     chan struct{} // capacity 1: a group with members may not be in memory; see missing

	// Lock order: the lock of a group, then mu. No goroutine blocks while it holds mu, and none
	// holds the locks of two groups.
	mu struct {
		sync.Mutex
		groups  map[string]*group // by name; none of them is gone
		closed  bool              // set by Close; enter fails then
		changes uint64            // counts calls of TopicsChanged
		pending Pending           // nil: there are no transactions
	}
}

// Open returns the coordinator of the groups of log. In the background it loads the groups that
// have members, whose sessions begin again, as after a heartbeat. It fails with Invalid if o is
// invalid; it does not read the log. The caller keeps the log, and closes it after the coordinator.
// Only one coordinator may be open on a log.
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

// Close answers requests that wait, and all later ones, with COORDINATOR_NOT_AVAILABLE. It waits
// until all requests and goroutines of the coordinator have ended. Closing twice is allowed.
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

// SetPending replaces [Options.Pending], for a p that is made after the coordinator. Call it before
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

// TopicsChanged reports to the coordinator that topics were created or deleted, or got partitions.
// A consumer group then reads its topics again at the next heartbeat of any of its members. Without
// the call it reads them at the first heartbeat after [Options.TopicsEvery].
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

// enter begins an operation that Close waits for; false after Close. If it returns true, the caller
// must call c.wg.Done.
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

// acquire returns the group called name, locked and loaded; the caller calls unlock or letGo. If
// there is no such group it returns nil, or with create a new one. unlock drops the new one again
// unless it exists by then.
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

// held returns the group called name, and puts an empty one into memory if there is none. The
// caller locks it, and loads it if that was not done.
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

// all returns the groups in memory, in no order.
func (c *Coordinator) all() []*group {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*group, 0, len(c.mu.groups))
	for _, g := range c.mu.groups {
		out = append(out, g)
	}
	return out
}

func (c *Coordinator) now() time.Time { return c.o.Now() }

// code returns the error code for an error of the log. Errors other than the end of the log or of a
// context are logged, because the client gets only the code.
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
