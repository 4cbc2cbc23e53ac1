package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem/interop/kafka/proxy"
)

// worker is a member of a group that polls and commits until it is stopped.
type worker struct {
	proxy  *proxy.Proxy
	cancel context.CancelFunc
	done   chan struct{}
	err    error

	// working is held from when records are known to be read until they are
	// committed.
	working sync.Mutex
}

// crew is a group at work: what its members have read between them.
type crew struct {
	mu   sync.Mutex
	seen map[string]int
	by   map[int]int // records of each member
}

// work starts member i of a group, behind a proxy of its own.
func (c *crew) work(e *Env, i int, o ConsumerOptions) *worker {
	e.Helper()
	w := &worker{proxy: e.proxy(), done: make(chan struct{})}
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(e.ctx)
	consumer := e.consumerAt(w.proxy.Address(), o)
	go func() {
		defer close(w.done)
		for {
			records, err := consumer.Poll(ctx)
			if ctx.Err() != nil {
				w.err = consumer.Close()
				return
			}
			if err == nil && len(records) > 0 {
				w.working.Lock()
				c.add(i, records)
				err = consumer.Commit(ctx)
				w.working.Unlock()
			}
			if err != nil && ctx.Err() == nil {
				w.err = errors.Join(err, consumer.Close())
				return
			}
		}
	}()
	return w
}

func (c *crew) add(member int, records []Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range records {
		c.seen[string(r.Value)]++
	}
	c.by[member] += len(records)
}

// await waits until the crew has read all n values with a prefix.
func (c *crew) await(e *Env, prefix string, n int) {
	e.Helper()
	e.must(eventually(e.ctx, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := range n {
			if v := fmt.Sprintf("%s%d", prefix, i); c.seen[v] == 0 {
				return fmt.Errorf("%s was not read", v)
			}
		}
		return nil
	}), "wait for the group")
}

// leave ends a member politely.
func (w *worker) leave(e *Env) {
	e.Helper()
	w.cancel()
	<-w.done
	e.must(w.err, "a member")
}

// vanish cuts off a member that has committed what it has read, without a word to
// the broker: some libraries never return from a commit that is not answered.
func (w *worker) vanish() {
	w.working.Lock()
	defer w.working.Unlock()
	w.proxy.Vanish()
	w.cancel()
}

// end waits for a member that has vanished. What it says does not matter.
func (w *worker) end(e *Env) {
	e.Helper()
	late := time.NewTimer(10 * time.Second)
	defer late.Stop()
	select {
	case <-w.done:
	case <-late.C: // it may be a call that ends when it finds the broker again
		e.must(w.proxy.Return(), "end a member")
		<-w.done
	}
}

const partitions = 6

// spread numbers records over all partitions.
func spread(prefix string, n int) []Record {
	records := numbered(prefix, n)
	for i := range records {
		records[i].Partition = int32(i % partitions)
	}
	return records
}

// groupOfThree has a member leave and another one vanish.
func groupOfThree(next bool) func(*Env) {
	return func(e *Env) {
		const n = 300
		o := ConsumerOptions{Topic: e.topic("group", partitions), Group: e.name("group"), Next: next, ShortSession: true}
		c := &crew{seen: map[string]int{}, by: map[int]int{}}
		members := []*worker{c.work(e, 0, o), c.work(e, 1, o), c.work(e, 2, o)}
		e.Judge.Members(e.ctx, o.Group, 3)
		for round := 0; ; round++ { // until an assignment has reached all three
			prefix := fmt.Sprintf("three%d-", round)
			e.Judge.Produce(e.ctx, o.Topic, spread(prefix, n))
			c.await(e, prefix, n)
			if c.busy() == 3 {
				break
			}
		}

		members[0].leave(e)
		e.Judge.Members(e.ctx, o.Group, 2)
		e.Judge.Produce(e.ctx, o.Topic, spread("two", n))
		c.await(e, "two", n)

		if next && !e.Patient { // the broker decides when such a member is missed: Kafka after 45 s
			members[1].leave(e)
		} else {
			members[1].vanish() // the broker is told nothing
		}
		e.Judge.Produce(e.ctx, o.Topic, spread("one", n))
		c.await(e, "one", n)
		e.Judge.Members(e.ctx, o.Group, 1)
		members[2].leave(e)
		e.Judge.Members(e.ctx, o.Group, 0)
		members[1].end(e)
	}
}

// busy returns how many members have read something.
func (c *crew) busy() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.by)
}

// staticMember restarts one of two static members. Nobody else's partitions move
// and the generation stays, so the other one never stops.
func staticMember(e *Env) {
	o := ConsumerOptions{Topic: e.topic("static", partitions), Group: e.name("static")}
	c := &crew{seen: map[string]int{}, by: map[int]int{}}
	start := func(i int) *worker {
		o := o
		o.InstanceID = fmt.Sprintf("instance-%d", i)
		return c.work(e, i, o)
	}
	a, b := start(0), start(1)
	e.Judge.Members(e.ctx, o.Group, 2)
	e.Judge.Produce(e.ctx, o.Topic, spread("before", 60))
	c.await(e, "before", 60)
	before := e.Judge.instances(e.ctx, o.Group)
	gone := b
	gone.vanish()
	b = start(1)
	e.Judge.Produce(e.ctx, o.Topic, spread("after", 60))
	c.await(e, "after", 60)
	e.must(eventually(e.ctx, func() error {
		after := e.Judge.instances(e.ctx, o.Group)
		if len(after) != 2 || after["instance-0"] != before["instance-0"] {
			return fmt.Errorf("members were %v and are %v", before, after)
		}
		if after["instance-1"] == before["instance-1"] {
			return fmt.Errorf("the member that came back was not noticed: %v", after)
		}
		return nil
	}), "wait for the static member")
	a.leave(e)
	b.leave(e)
	gone.end(e)
}

// instances returns the member id of each static member.
func (j *Judge) instances(ctx context.Context, group string) map[string]string {
	ids := map[string]string{}
	d, err := j.ad.DescribeGroups(ctx, group)
	if err != nil {
		j.t.Errorf("describe %s: %v", group, err)
		return ids
	}
	for _, m := range d[group].Members {
		if m.InstanceID != nil {
			ids[*m.InstanceID] = m.MemberID
		}
	}
	return ids
}

// commitResume opens a new member for every round. One round reads and does not
// commit, so the next one reads the same.
func commitResume(e *Env) {
	const n = 100
	o := ConsumerOptions{Topic: e.topic("resume", 1), Group: e.name("resume")}
	committed := int64(0)
	for round, commit := range []bool{true, false, true} {
		sent := numbered(fmt.Sprintf("round%d-", round), n)
		e.Judge.Produce(e.ctx, o.Topic, sent)
		end := e.Judge.End(e.ctx, o.Topic)
		c := e.consumer(o)
		got := e.read(c, int(end-committed))
		if first, last := got[0].Offset, got[len(got)-1].Offset; first != committed || last != end-1 {
			e.Errorf("round %d read offsets %d to %d, want %d to %d", round, first, last, committed, end-1)
		}
		if commit {
			e.must(c.Commit(e.ctx), "commit")
			committed = end
		}
		e.closed(c)
	}
	if at := e.Judge.Committed(e.ctx, o.Group, o.Topic); at != committed {
		e.Errorf("committed offset %d, want %d", at, committed)
	}
}
