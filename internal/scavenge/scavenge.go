// Package scavenge gives memory that a program does not need any more back to the system.
//
// The Go runtime keeps free memory up to what the heap was allowed to grow to when it last
// collected garbage. A program that has had many clients and is quiet then collects once in
// two minutes only, and keeps it until then. [Run] looks earlier, and does nothing in a program
// whose heap is in use. Only a program may call it, not a library: it collects garbage in the
// whole process.
package scavenge

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Every is the time between two looks, and Least the free bytes that are worth the work.
const (
	Every = 10 * time.Second
	Least = 256 << 20
)

// Run gives memory back until ctx ends: when at two looks in a row at least [Least] bytes,
// and more than the heap uses, were free and not with the system.
func Run(ctx context.Context) {
	w := watch{least: Least, usage: heap, release: debug.FreeOSMemory}
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.look()
		}
	}
}

// watch remembers what the last look has seen.
type watch struct {
	least   uint64
	usage   func() (used, free uint64) // bytes
	release func()

	plenty bool // at the last look too much was free
}

// look releases memory if it was free at the last look, too.
func (w *watch) look() {
	used, free := w.usage()
	plenty := free >= w.least && free > used
	if plenty && w.plenty {
		w.release()
		plenty = false
	}
	w.plenty = plenty
}

// heap returns the bytes of the heap in use and those that are free and not with the system.
func heap() (used, free uint64) {
	s := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(s)
	return s[0].Value.Uint64() + s[1].Value.Uint64(), s[2].Value.Uint64()
}
