package scavenge

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// Memory is released when much is free twice in a row, and only then.
func TestLook(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		name string
		free []uint64 // at each look; 100 MiB are used
		want int
	}{
		{"little is free", []uint64{255 * mib, 255 * mib, 255 * mib}, 0},
		{"much is free once", []uint64{1000 * mib, 0, 1000 * mib, 0}, 0},
		{"much stays free", []uint64{1000 * mib, 1000 * mib, 0, 0}, 1},
		{"again", []uint64{1000 * mib, 1000 * mib, 1000 * mib, 1000 * mib}, 2},
	} {
		released, next := 0, 0
		w := watch{least: Least, release: func() { released++ }, usage: func() (used, free uint64) {
			next++
			return 100 * mib, tt.free[next-1]
		}}
		for range tt.free {
			w.look()
		}
		if released != tt.want {
			t.Errorf("%s: released %d times, want %d", tt.name, released, tt.want)
		}
	}
	w := watch{least: Least, release: func() { t.Error("released while more is used than free") },
		usage: func() (used, free uint64) { return 2000 * mib, 1000 * mib }}
	w.look()
	w.look()
}

// What the process had and does not need any more goes back to the system.
func TestHeap(t *testing.T) {
	ballast := make([]byte, 64<<20)
	for i := range ballast {
		ballast[i] = 1
	}
	used, _ := heap()
	if used < uint64(len(ballast)) {
		t.Errorf("%d bytes are used", used)
	}
	runtime.KeepAlive(ballast)
	ballast = nil
	w := watch{least: 1 << 20, usage: heap, release: debug.FreeOSMemory}
	w.plenty = true
	runtime.GC()
	w.look()
	if _, free := heap(); free >= 32<<20 {
		t.Errorf("%d bytes are free and were kept", free)
	}
}

func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			Run(ctx)
		}()
		time.Sleep(3 * Every) // of the bubble
		cancel()
		<-done
	})
}
