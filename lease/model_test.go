package lease_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/lease"
)

// contender acquires the lease whenever it is free. It writes under the lease while it believes
// that it is the owner, and sometimes with leases that are over.
type contender struct {
	name  string
	net   *network
	keep  *lease.Keeper
	start uint64

	mu    sync.Mutex // guards the fields below
	now   *lease.Lease
	had   []*lease.Lease
	stops chan struct{}
	wg    sync.WaitGroup
}

// TestAtMostOneOwner runs random programs of cuts, delays longer than the TTL, restarts and crashes
// on three contenders for one key, in virtual time. At every moment at most one of them may believe
// that it is the owner, and no fenced write of one epoch may follow one of a higher epoch.
func TestAtMostOneOwner(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				who:  rapid.IntRange(0, 2).Draw(rt, "who"),
				what: rapid.SampledFrom([]string{"cut", "freeze", "heal", "heal", "restart", "crash", "late", "release"}).Draw(rt, "what"),
				wait: time.Duration(rapid.IntRange(0, 25_000).Draw(rt, "ms")) * time.Millisecond,
			}
		}), 5, 30).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			if err := contend(t, steps); err != nil {
				rt.Fatalf("%v\nsteps %+v", err, steps)
			}
		})
	})
}

type step struct {
	who  int
	what string
	wait time.Duration
}

func contend(t *testing.T, steps []step) error {
	log := model.New(nil)
	defer log.Close()
	var all [3]*contender
	for i := range all {
		all[i] = &contender{name: string(rune('a' + i)), net: newNetwork(log)}
		all[i].begin(t)
	}
	defer func() {
		for _, c := range all {
			c.net.heal()
			c.end(t)
		}
	}()
	for _, s := range steps {
		all[s.who].do(t, s.what)
		for end := time.Now().Add(s.wait); time.Now().Before(end); {
			if err := oneBelieves(all[:]); err != nil {
				return err
			}
			pass(50 * time.Millisecond)
		}
	}
	for _, c := range all {
		c.net.heal()
	}
	pass(6 * ttl)
	if err := oneBelieves(all[:]); err != nil {
		return err
	}
	owner, ok := all[0].keep.Holder("k")
	if !ok {
		return errors.New("when all is well again, nobody has the lease")
	}
	return ordered(t, log, owner.Epoch)
}

// do runs one step of the program.
func (c *contender) do(t *testing.T, what string) {
	switch what {
	case "cut":
		c.net.cut()
	case "freeze":
		c.net.freeze()
	case "heal":
		c.net.heal()
	case "restart":
		c.net.heal()
		c.end(t)
		c.begin(t)
	case "crash": // its last commits may arrive later
		c.net.freeze()
		c.end(t)
		old := c.net
		c.net = newNetwork(c.net.Log)
		time.AfterFunc(ttl, old.heal)
		c.begin(t)
	case "late": // it writes with leases that are over
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, l := range c.had {
			go c.write(t, l, c.net)
		}
	case "release":
		if l := c.lease(); l != nil {
			go func() { _ = l.Release(t.Context()) }()
		}
	}
}

func (c *contender) lease() *lease.Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// begin starts the contender. It may have to wait for the end of its earlier session.
func (c *contender) begin(t *testing.T) {
	c.start++
	c.stops = make(chan struct{})
	k, err := lease.Open(t.Context(), c.net, lease.Member{Name: c.name, Start: c.start}, &lease.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	c.keep = k
	net := c.net
	c.wg.Go(func() {
		for {
			select {
			case <-c.stops:
				return
			case <-time.After(200 * time.Millisecond):
			}
			l := c.lease()
			if l == nil || !l.Valid() {
				l, _ = k.Acquire(t.Context(), "k", "")
				c.mu.Lock()
				c.now = l
				c.mu.Unlock()
			}
			if l != nil {
				c.mu.Lock()
				if n := len(c.had); n == 0 || c.had[n-1] != l {
					c.had = append(c.had, l)
				}
				c.mu.Unlock()
				c.write(t, l, net)
			}
		}
	})
}

// end stops the contender, frozen or not.
func (c *contender) end(t *testing.T) {
	close(c.stops)
	frozen := c.net
	c.mu.Lock()
	c.now = nil
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.wg.Wait()
		_ = c.keep.Close(t.Context())
	}()
	select {
	case <-done:
	case <-time.After(3 * ttl): // then the calls that it waits for pass
		frozen.heal()
		<-done
	}
}

// write appends the lease's epoch to a stream, fenced.
func (c *contender) write(t *testing.T, l *lease.Lease, net *network) {
	b := mainstem.NewBatch()
	b.Ensure("writes", mainstem.Policy{})
	b.Put("writes", []byte("w"), fmt.Appendf(nil, "%d %s", l.Epoch(), c.name))
	l.Fence(b)
	_, _ = net.Commit(t.Context(), b)
}

func oneBelieves(all []*contender) error {
	var who []string
	for _, c := range all {
		if l := c.lease(); l != nil && l.Valid() {
			who = append(who, fmt.Sprintf("%s in epoch %d", c.name, l.Epoch()))
		}
	}
	if len(who) > 1 {
		return fmt.Errorf("at once believe to be the owner: %s", strings.Join(who, ", "))
	}
	return nil
}

// ordered checks that epochs never decrease and that each belongs to one contender.
func ordered(t *testing.T, log mainstem.Log, newest uint64) error {
	last, owner := uint64(0), ""
	for r, err := range log.Read(t.Context(), "writes", []byte("w"), mainstem.Versions{}) {
		if err != nil {
			return err
		}
		number, name, _ := strings.Cut(string(r.Value), " ")
		epoch, _ := strconv.ParseUint(number, 10, 64)
		switch {
		case epoch < last:
			return fmt.Errorf("a write of epoch %d stands behind one of epoch %d", epoch, last)
		case epoch == last && name != owner:
			return fmt.Errorf("%s and %s both wrote in epoch %d", owner, name, epoch)
		}
		last, owner = epoch, name
	}
	if last != newest {
		return fmt.Errorf("the newest write has epoch %d, the owner %d", last, newest)
	}
	return nil
}
