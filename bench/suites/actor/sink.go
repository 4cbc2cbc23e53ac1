package actor

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Patience is how long a message may be on its way when everything was sent.
const Patience = 30 * time.Second

// patience is what tests shorten.
var patience = Patience

// Sink is where the messages of one pair end. Each has cache lines of its own.
type Sink struct {
	_     [64]byte
	next  int // messages that came
	want  int // messages of the burst
	wrong int // messages that were not the one that was due
	done  chan struct{}
	_     [64]byte
}

// Receive takes a message. The receiving process calls it, one message at a time.
func (s *Sink) Receive(v int) {
	if v != Message(s.next) {
		s.wrong++
	}
	if s.next++; s.next == s.want {
		s.done <- struct{}{}
	}
}

// Sinks returns n sinks.
func Sinks(n int) []*Sink {
	sinks := make([]*Sink, n)
	for i := range sinks {
		sinks[i] = &Sink{done: make(chan struct{}, 1)}
	}
	return sinks
}

// expect prepares the sinks for a burst. Nothing may be on its way.
func expect(sinks []*Sink, counts []int) {
	for i, s := range sinks {
		s.next, s.want, s.wrong = 0, counts[i], 0
	}
}

// await waits until every sink has its burst.
func await(ctx context.Context, sinks []*Sink) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for i, s := range sinks {
		if s.want == 0 {
			continue
		}
		select {
		case <-s.done:
		case <-late.C:
			return fmt.Errorf("pair %d: not all of %d messages came within %s after they were sent", i, s.want, patience)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if s.wrong > 0 {
			return fmt.Errorf("pair %d: %d of %d messages were lost, repeated or out of order", i, s.wrong, s.want)
		}
	}
	return nil
}

// checkNoneTooMany reports messages that came beyond what was sent.
func checkNoneTooMany(sinks []*Sink) error {
	for i, s := range sinks {
		if s.next != s.want {
			return fmt.Errorf("pair %d: %d messages came, %d were sent", i, s.next, s.want)
		}
	}
	return nil
}

// Audience is the subscribers of a publisher, on one node or more.
type Audience struct {
	Nodes, Each int // nodes, and subscribers on each of them

	text  atomic.Pointer[string] // what is being published
	wrong atomic.Int64
	nodes []listeners
	done  chan struct{} // receives when a node has it all
}

// listeners are the subscribers on one node.
type listeners struct {
	_    [64]byte
	got  atomic.Int64
	seen []uint32 // by subscriber: each is written by that one only
	_    [64]byte
}

func newAudience(nodes, each int) *Audience {
	a := &Audience{Nodes: nodes, Each: each, nodes: make([]listeners, nodes), done: make(chan struct{}, nodes)}
	for i := range a.nodes {
		a.nodes[i].seen = make([]uint32, each)
	}
	return a
}

// Receive takes what subscriber i of a node got. Each subscriber calls it, one
// message at a time.
func (a *Audience) Receive(node, i int, text string) {
	n := &a.nodes[node]
	n.seen[i]++
	if want := a.text.Load(); want == nil || text != *want {
		a.wrong.Add(1)
	}
	if n.got.Add(1)%int64(a.Each) == 0 {
		select {
		case a.done <- struct{}{}:
		default: // more than was published: check says so
		}
	}
}

// await waits until every node has what was published last.
func (a *Audience) await(ctx context.Context) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for range a.nodes {
		select {
		case <-a.done:
		case <-late.C:
			return fmt.Errorf("not all of %d subscribers got the message within %s", a.Nodes*a.Each, patience)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// check verifies that each subscriber got each of so many publications once.
func (a *Audience) check(published int) error {
	if n := a.wrong.Load(); n > 0 {
		return fmt.Errorf("%d deliveries were not what was published", n)
	}
	for i := range a.nodes {
		for j, n := range a.nodes[i].seen {
			if int(n) != published {
				return fmt.Errorf("subscriber %d of node %d got %d messages, %d were published", j, i, n, published)
			}
		}
	}
	return nil
}
