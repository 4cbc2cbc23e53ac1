package projection

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/internal/uuid"
	"github.com/mainstemdev/mainstem/lease"
)

// This file shares the partitions of a projection between engines. Each has a lease that says that it
// is here, and takes leases of as many partitions as are its share. It gives up what it has above
// that, so that an engine that comes later gets its share too.

// keepers is the membership of an engine among those of the store; only what needs leases joins.
type keepers struct {
	sync.Mutex
	keeper *lease.Keeper
	closed bool
}

// keeper returns the engine's membership, which it begins if there is none yet.
func (e *Engine) keeper(ctx context.Context) (*lease.Keeper, error) {
	e.leases.Lock()
	defer e.leases.Unlock()
	switch {
	case e.leases.closed:
		return nil, errLeaving
	case e.leases.keeper != nil:
		return e.leases.keeper, nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	self := lease.Member{Name: fmt.Sprintf("%.64s.%d.%s", host, os.Getpid(), uuid.Random()), Start: 1}
	k, err := lease.Open(ctx, e.store.Log(), self, &lease.Options{
		Bucket: "projection-leases/" + e.store.Name(), TTL: e.opts.TTL, Logger: e.opts.Logger,
	})
	e.leases.keeper = k
	return k, err
}

// closeKeeper ends the membership.
func (e *Engine) closeKeeper() {
	e.leases.Lock()
	defer e.leases.Unlock()
	e.leases.closed = true
	if e.leases.keeper == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	if err := e.leases.keeper.Close(ctx); err != nil {
		e.opts.Logger.Warn("the partitions of an engine become free only after their TTL", "store", e.store.Name(), "error", err)
	}
	e.leases.keeper = nil
}

// Leases are named by what they are of; names of projections have no control characters.
func hereKey(set, node string) string   { return "here/" + set + "\x00" + node }
func partKey(set string, i int) string  { return "part/" + set + "\x00" + strconv.Itoa(i) }
func clearKey(projection string) string { return "clear/" + projection }
func release(ctx context.Context, l *lease.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	_ = l.Release(ctx) // if it fails, the session tries again
}

// share runs the partitions of the set that are this engine's, until the generation ends.
func (s *set) share() {
	ctx := s.g.ctx
	for n := 1; !s.g.over(); n++ {
		k, err := s.g.u.e.keeper(ctx)
		if err == nil {
			err = s.shareWith(ctx, k)
		}
		if s.g.over() {
			return
		}
		if err != nil && !errors.Is(err, lease.ErrLost) {
			s.g.u.e.opts.Logger.Warn("a projection cannot get its partitions", "projection", s.name(), "error", err)
		}
		s.g.u.pause(ctx, again, n)
	}
}

// crew is the partitions of a set that this engine runs.
type crew struct {
	s     *set
	k     *lease.Keeper
	parts map[int]*part
	ended chan int // a part, when its lease has been given up
}

// shareWith returns an error when the session was lost, or the log cannot be reached.
func (s *set) shareWith(ctx context.Context, k *lease.Keeper) error {
	here, err := k.Acquire(ctx, hereKey(s.name(), k.Self().Name), "")
	if err != nil {
		return err
	}
	defer release(ctx, here)
	c := &crew{s: s, k: k, parts: make(map[int]*part), ended: make(chan int, s.n)}
	defer c.end()
	for {
		changed := k.Changed()
		retry, err := c.balance(ctx)
		if err != nil {
			return err
		}
		var timer <-chan time.Time
		if retry {
			timer = time.After(again.Max / 4)
		}
		select {
		case <-changed:
		case <-timer:
		case i := <-c.ended:
			delete(c.parts, i)
		case <-here.Done():
			return lease.ErrLost
		case <-s.g.u.leaving:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// quota returns how many partitions are the engine's share; 0 if the others are not seen yet.
func (c *crew) quota() int {
	here := c.k.Holders(hereKey(c.s.name(), ""))
	i := slices.IndexFunc(here, func(h lease.Held) bool { return h.Node == c.k.Self().Name })
	if i < 0 {
		return 0
	}
	q := c.s.n / len(here)
	if i < c.s.n%len(here) {
		q++
	}
	return q
}

// balance stops parts above the quota, and takes free ones below it. Retry means that the log could not
// be reached for some.
func (c *crew) balance(ctx context.Context) (retry bool, err error) {
	quota := c.quota()
	surplus := len(c.parts) - quota
	for i := c.s.n - 1; i >= 0 && surplus > 0; i-- { // the same ones as before, if they have not ended yet
		if p := c.parts[i]; p != nil {
			p.stop()
			surplus--
		}
	}
	for i := 0; i < c.s.n && len(c.parts) < quota && ctx.Err() == nil; i++ {
		key := partKey(c.s.name(), i)
		if _, held := c.k.Holder(key); held || c.parts[i] != nil {
			continue
		}
		l, err := c.k.Acquire(ctx, key, "")
		switch {
		case err == nil:
			c.begin(ctx, i, l)
		case errors.Is(err, lease.ErrHeld):
		case errors.Is(err, lease.ErrLost):
			return false, err
		default:
			retry = true
		}
	}
	return retry, nil
}

// begin runs a partition until it is to end or its lease is over, and gives the lease up then.
func (c *crew) begin(ctx context.Context, i int, l *lease.Lease) {
	p := c.s.part(i)
	p.lease = l
	c.parts[i] = p
	c.s.g.u.add(p)
	c.s.g.wg.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		over := make(chan struct{})
		c.s.g.wg.Go(func() {
			select {
			case <-l.Done(): // what it is at cannot be committed
				p.stop()
				cancel()
			case <-over:
			}
		})
		p.run(ctx)
		close(over)
		c.s.g.u.remove(p)
		release(ctx, l)
		c.ended <- i
	})
}

// end stops all parts, and returns when their leases have been given up.
func (c *crew) end() {
	for _, p := range c.parts {
		p.stop()
	}
	for len(c.parts) > 0 {
		delete(c.parts, <-c.ended)
	}
}
