package actor

import (
	"sync"
	"sync/atomic"
	"time"
)

// DeadLetter is a message that nobody handled.
type DeadLetter struct {
	To      Address
	Message any
	Reason  error // ErrStopped, ErrMailboxFull, ErrUnreachable, or what else prevented it, such as a *PanicError
	Time    time.Time
}

// deadLetters are those who listen, and how many there were.
type deadLetters struct {
	count     atomic.Uint64
	listeners atomic.Int32
	mu        sync.Mutex
	f         map[*func(DeadLetter)]struct{}
}

// DeadLetters returns how many messages nobody handled since the node was opened.
func (n *Node) DeadLetters() uint64 { return n.dead.count.Load() }

// OnDeadLetter calls f for every dead letter from now on, until cancel is called.
// f runs in the goroutine that caused the dead letter and must not block. Without
// listeners a dead letter costs a counter.
func (n *Node) OnDeadLetter(f func(DeadLetter)) (cancel func()) {
	d := &n.dead
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.f == nil {
		d.f = make(map[*func(DeadLetter)]struct{})
	}
	d.f[&f] = struct{}{}
	d.listeners.Add(1)
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.f, &f)
		d.listeners.Add(-1)
	})
}

// SendDeadLetters sends every dead letter from now on to an actor, until cancel
// is called. Give it a mailbox with a limit: a flood of dead letters is a flood there
// too. A dead letter that it cannot take is counted, and not sent to it again.
func (n *Node) SendDeadLetters(to Ref[DeadLetter]) (cancel func()) {
	return n.OnDeadLetter(func(l DeadLetter) {
		if _, again := l.Message.(DeadLetter); !again {
			_ = to.Send(noWait, l)
		}
	})
}

// deadLetter counts a dead letter and makes it if somebody listens.
func (n *Node) deadLetter(letter func() DeadLetter) {
	n.dead.count.Add(1)
	if n.dead.listeners.Load() == 0 && n.observer == nil {
		return
	}
	n.dead.mu.Lock()
	fs := make([]func(DeadLetter), 0, len(n.dead.f))
	for f := range n.dead.f {
		fs = append(fs, *f)
	}
	n.dead.mu.Unlock()
	l := letter()
	if n.observer != nil {
		n.harmless(func() { n.observer.Dropped(l) })
	}
	for _, f := range fs {
		n.harmless(func() { f(l) })
	}
}
