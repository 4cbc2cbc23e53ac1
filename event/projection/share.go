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

// This file divides the partitions of a set among the engines that run the projection.
//
// Each engine of the projection holds a lease here/SET/ENGINE, by which the others see that it
// takes part. Its quota is the number of partitions divided by the number of such leases; the
// remainder goes to the first ones in the order of the leases. An engine stops partitions above its
// quota and acquires free ones below it, whenever the leases have changed. So a partition is free
// when its engine has stopped it, or when the engine's session has ended.
//
// Invariant: an engine runs a partition only while it holds the lease part/SET/NUMBER. The lease is
// also a condition of each commit of the partition, so a late engine writes nothing.

// keepers is the membership of an engine in the lease table of the store. It begins with the first
// use of a lease.
type keepers struct {
	sync.Mutex
	keeper *lease.Keeper // guarded by the mutex, as closed is; nil before the first use and after the end
	closed bool          // no membership begins any more
}

// keeper returns the membership of the engine, and begins it if necessary.
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

// closeKeeper ends the membership, which releases its leases.
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

// The names of leases. Names of projections contain no control characters.
func hereKey(set, node string) string   { return "here/" + set + "\x00" + node }
func partKey(set string, i int) string  { return "part/" + set + "\x00" + strconv.Itoa(i) }
func clearKey(projection string) string { return "clear/" + projection }
func release(ctx context.Context, l *lease.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	_ = l.Release(ctx) // if it fails, the session tries again
}

// share runs the engine's share of the partitions until the generation is to end. It begins again
// when the session was lost or the log was unavailable.
func (s *set) share() {
	ctx := s.g.ctx
	joining, cancel := s.g.untilLeaving() // so that the engine stops while the log is unavailable
	defer cancel()
	for n := 1; !s.g.over(); n++ {
		k, err := s.g.u.e.keeper(joining)
		if err == nil {
			err = s.shareWith(ctx, joining, k)
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

// crew is the partitions of a set that this engine runs. Its fields are used by one goroutine.
type crew struct {
	s     *set
	k     *lease.Keeper
	parts map[int]*part // by number of the partition
	ended chan int      // numbers of parts that have ended and released their leases; capacity s.n
}

// shareWith runs the engine's share with leases of k. It returns an error when the session is lost
// or the log is unavailable, and nil when the generation is to end. The parts run with ctx. Leases
// are acquired with joining, which also ends when the engine stops.
func (s *set) shareWith(ctx, joining context.Context, k *lease.Keeper) error {
	here, err := k.Acquire(joining, hereKey(s.name(), k.Self().Name), "")
	if err != nil {
		return err
	}
	defer release(ctx, here)
	c := &crew{s: s, k: k, parts: make(map[int]*part), ended: make(chan int, s.n)}
	defer c.end()
	for {
		changed := k.Changed()
		retry, err := c.balance(ctx, joining)
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

// quota returns how many partitions this engine should run; 0 if its own lease is not in the view
// yet.
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

// balance stops parts above the quota and acquires free partitions below it. It returns retry if
// the log was unavailable for some of them.
func (c *crew) balance(ctx, joining context.Context) (retry bool, err error) {
	quota := c.quota()
	surplus := len(c.parts) - quota
	for i := c.s.n - 1; i >= 0 && surplus > 0; i-- { // the highest first, so a repeated call stops the same ones
		if p := c.parts[i]; p != nil {
			p.stop()
			surplus--
		}
	}
	for i := 0; i < c.s.n && len(c.parts) < quota && joining.Err() == nil; i++ {
		key := partKey(c.s.name(), i)
		if _, held := c.k.Holder(key); held || c.parts[i] != nil {
			continue
		}
		l, err := c.k.Acquire(joining, key, "")
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

// begin runs a partition until it is to end or its lease is lost, and then releases the lease.
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
			case <-l.Done(): // its commit under way would fail
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

// end stops all parts and waits until their leases are released.
func (c *crew) end() {
	for _, p := range c.parts {
		p.stop()
	}
	for len(c.parts) > 0 {
		delete(c.parts, <-c.ended)
	}
}
