package rpc

// maxIdle is how many goroutines of a handler wait for calls. Each keeps its stack.
const maxIdle = 32

// workers are goroutines that serve calls of sessions, one after the other. The stack of a
// goroutine that has served a call is large enough for the next; that of a new one grows
// several times while it serves its first, which took a fifth of the time of a small commit.
//
// Invariant: there is an element in idle for each goroutine that receives from calls, so at
// most maxIdle do. They end with the handler.
type workers struct {
	calls chan *sessionCall // without a buffer: what is sent is being served
	idle  chan struct{}
}

func newWorkers() workers {
	return workers{make(chan *sessionCall), make(chan struct{}, maxIdle)}
}

// start serves c in a goroutine of its own.
func (h *Handler) start(c *sessionCall) {
	select {
	case h.workers.calls <- c:
	default:
		go h.work(c)
	}
}

// work serves c, and then other calls, until enough goroutines wait for them.
func (h *Handler) work(c *sessionCall) {
	for {
		c.serve()
		c.s.remove(c)
		select {
		case h.workers.idle <- struct{}{}:
		default:
			return
		}
		select {
		case c = <-h.workers.calls:
			<-h.workers.idle
		case <-h.stopping.Done():
			return
		}
	}
}
