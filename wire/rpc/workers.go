package rpc

import (
	"sync/atomic"
	"time"
)

const (
	// maxIdle is the largest number of idle goroutines of a handler. Each keeps its stack.
	maxIdle = 32

	// idleFor is how long they stay while no call begins: between once and twice this time.
	idleFor = 100 * time.Millisecond
)

// workers are goroutines that serve calls of sessions, one after the other. The stack of a
// goroutine that has served a call is large enough for the next one. The stack of a new goroutine
// grows several times during its first call, which took a fifth of the time of a small commit.
//
// Invariants:
//   - There is an element in idle for each goroutine that receives from calls, or is about to:
//     at most maxIdle do.
//   - The timer runs where there is an element in idle.
type workers struct {
	calls chan *sessionCall // unbuffered: a call that was sent is being served; nil ends the receiver
	idle  chan struct{}
	begun atomic.Uint64 // calls
	timer *time.Timer   // of tick
	timed atomic.Bool   // the timer runs
	seen  uint64        // begun at the last tick. It is the timer's
}

func (w *workers) init() {
	w.calls, w.idle = make(chan *sessionCall), make(chan struct{}, maxIdle)
	w.timer = time.AfterFunc(time.Hour, w.tick)
	w.timer.Stop()
}

// start serves c in a goroutine other than the caller's.
func (w *workers) start(c *sessionCall) {
	w.begun.Add(1)
	select {
	case w.calls <- c:
	default:
		go w.work(c)
	}
}

// work serves c, and then other calls, until enough goroutines wait for them or none comes.
func (w *workers) work(c *sessionCall) {
	for c != nil {
		c.serve()
		c.s.remove(c)
		select {
		case w.idle <- struct{}{}:
		default:
			return
		}
		w.watch()
		c = <-w.calls
		<-w.idle
	}
}

// watch starts the timer unless it runs.
func (w *workers) watch() {
	if !w.timed.Load() && w.timed.CompareAndSwap(false, true) {
		w.timer.Reset(idleFor)
	}
}

// tick ends the goroutines that wait if no call began since it ran last.
func (w *workers) tick() {
	if n := w.begun.Load(); n != w.seen {
		w.seen = n
		w.timer.Reset(idleFor)
		return
	}
	w.timed.Store(false)
	for {
		select {
		case w.calls <- nil:
			continue
		default:
		}
		if len(w.idle) > 0 { // of who is about to receive, or has just done so
			w.watch()
		}
		return
	}
}
