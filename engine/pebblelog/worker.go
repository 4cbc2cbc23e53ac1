package pebblelog

import "github.com/mainstemdev/mainstem/internal/wake"

// worker runs a function in the background each time it is woken.
type worker struct {
	do   func()
	wake chan struct{} // capacity 1
	quit chan struct{}
	done chan struct{}
}

func newWorker(do func()) *worker {
	return &worker{do: do, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

// poke wakes the worker. It does not block.
func (w *worker) poke() { wake.Signal(w.wake) }

// run works until stop is called.
func (w *worker) run() {
	defer close(w.done)
	for {
		select {
		case <-w.quit:
			return
		case <-w.wake:
			w.do()
		}
	}
}

// stop returns when the worker has ended.
func (w *worker) stop() {
	close(w.quit)
	<-w.done
}
