package actor

import (
	"sync"
	"sync/atomic"
	"time"
)

// DeadLetter is a message that no actor has handled and none will. The message during which an
// actor failed is none: the exit reason of the actor reports it.
type DeadLetter struct {
	To      Address
	Message any // as it was sent: it is shared with the sender and must not be changed
	// Reason is ErrStopped, ErrMailboxFull, ErrUnreachable, context.DeadlineExceeded (nobody
	// waits for the answer any more), or another error, such as a *PanicError.
	Reason error
	Time   time.Time
}

// deadLetters counts the dead letters of a node and holds its listeners.
type deadLetters struct {
	count     atomic.Uint64 // of dead letters
	listeners atomic.Int32  // the length of f; mu guards writes
	mu        sync.Mutex    // guards f
	f         map[*func(DeadLetter)]struct{}
}

// DeadLetters returns the number of dead letters since the node was opened.
func (n *Node) DeadLetters() uint64 { return n.dead.count.Load() }

// OnDeadLetter calls f for every dead letter of the node from now on, until cancel is called. f
// runs in the goroutine that caused the dead letter, several at once; it must not block. A call
// that has begun may outlast cancel. If f panics, the node logs it. Without listeners and an
// [Observer], a dead letter costs an atomic addition.
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

// SendDeadLetters sends every dead letter from now on to an actor, until cancel is called. The
// actor should have a mailbox with a limit, since there may be very many. A dead letter that does
// not reach the actor is a dead letter itself: it is counted, and is not sent again.
func (n *Node) SendDeadLetters(to Ref[DeadLetter]) (cancel func()) {
	return n.OnDeadLetter(func(l DeadLetter) {
		if _, again := l.Message.(DeadLetter); !again {
			_ = to.Send(noWait, l)
		}
	})
}

// deadLetter counts a dead letter. If there is a listener or an observer, it calls letter to make
// the DeadLetter and passes it to them. The caller holds no lock.
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
