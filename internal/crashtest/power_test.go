package crashtest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
)

const dir = "/data/log"

func options(fs vfs.FS, c *crashtest.Clock, d mainstem.Durability) *pebblelog.Options {
	return &pebblelog.Options{FS: fs, Now: c.Now, Durability: d, MemTableBytes: 64 << 10, CacheBytes: 1 << 20, MinFree: -1, SweepEvery: 1000 * time.Hour}
}

func generate(t *testing.T, shape crashtest.Shape) *crashtest.Workload {
	t.Helper()
	c := new(crashtest.Clock)
	ref, err := pebblelog.OpenMemory(options(nil, c, shape.Durability))
	if err != nil {
		t.Fatal(err)
	}
	w, err := crashtest.Generate(context.Background(), shape, ref, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := crashtest.Check(context.Background(), ref); err != nil {
		t.Errorf("seed %d: the reference itself: %v", shape.Seed, err)
	}
	if err := ref.Close(); err != nil {
		t.Fatal(err)
	}
	return w
}

// disk is a file system on which the power can be cut.
type disk interface {
	vfs.FS
	// afterCut returns what a power cut leaves now. Of what was not synced, percent is kept.
	afterCut(percent int, rng *rand.Rand) disk
}

// orderly leaves what Pebble's own simulation does, torn less order: see crashtest.TornFS.
type (
	orderly struct{ *vfs.MemFS }
	torn    struct{ *crashtest.TornFS }
)

func (o orderly) afterCut(percent int, rng *rand.Rand) disk {
	return orderly{o.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})}
}

func (o torn) afterCut(percent int, rng *rand.Rand) disk { return torn{o.Cut(percent, rng)} }

// powerCut runs a workload on a file system and cuts the power in front of every
// operation that changes it.
type powerCut struct {
	t  *testing.T
	w  *crashtest.Workload
	d  mainstem.Durability
	fs disk

	chosen func(n int) bool // whether the power is cut before operation n

	opened       atomic.Bool
	acked, begun atomic.Int64 // steps
	closed       atomic.Bool

	mu     sync.Mutex
	failed bool
	cuts   int
	twice  int // cuts until recovery itself is cut, too
}

// TestPowerCut cuts the power in front of the file operations of a workload (see
// -crash.every), from the creation of the log to its end, and looks at what is left.
func TestPowerCut(t *testing.T) {
	modes := []struct {
		name  string
		shape crashtest.Shape
		disk  func() disk
	}{
		{"fsync", crashtest.Shape{Durability: mainstem.Fsync, Big: true}, newOrderly},
		{"os", crashtest.Shape{Durability: mainstem.OS, Big: true}, newOrderly},
		{"interval", crashtest.Shape{Durability: mainstem.Interval(time.Millisecond)}, newOrderly},
		{"mixed", crashtest.Shape{Durability: mainstem.Fsync, Mixed: true, Big: true}, newOrderly},
		{"torn", crashtest.Shape{Durability: mainstem.Fsync, Mixed: true, Big: true}, newTorn},
	}
	for _, mode := range modes {
		for _, seed := range seeds(1, 30) {
			t.Run(fmt.Sprintf("%s/seed=%d", mode.name, seed), func(t *testing.T) {
				t.Parallel()
				shape := mode.shape
				shape.Seed, shape.Steps = seed, 32
				p := &powerCut{t: t, w: generate(t, shape), d: shape.Durability, fs: mode.disk(), chosen: sample(t), twice: int(seed) * 29 % cutsPerSecond}
				p.run()
				t.Logf("%d power cuts", p.cuts)
			})
		}
	}
}

func newOrderly() disk { return orderly{vfs.NewCrashableMem()} }
func newTorn() disk    { return torn{crashtest.NewTornFS()} }

func (p *powerCut) run() {
	fs := &crashtest.CutFS{FS: p.fs, Before: p.cut}
	c := new(crashtest.Clock)
	l, err := pebblelog.Open(dir, options(fs, c, p.d))
	if err != nil {
		p.t.Fatal(err)
	}
	p.opened.Store(true)
	for n := 1; n <= len(p.w.Steps); n++ {
		p.begun.Store(int64(n))
		if err := p.w.Do(context.Background(), l, c, n); err != nil {
			p.t.Fatalf("seed %d: %v", p.w.Seed, err)
		}
		p.acked.Store(int64(n))
	}
	if err := l.Close(); err != nil {
		p.t.Fatal(err)
	}
	p.closed.Store(true)
	fs.Do(func(ops int) { p.cut(ops+1, endOfRun) })
}

// endOfRun describes the power cut after the last operation.
const endOfRun = "end"

// cut looks at what a power cut now would leave behind, three times: nothing that
// was not synced, all of it, and a part of it.
func (p *powerCut) cut(n int, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed || what != endOfRun && !p.chosen(n) {
		return
	}
	rng := rand.New(rand.NewPCG(p.w.Seed, uint64(n)))
	for _, percent := range []int{0, 100, 1 + rng.IntN(99)} {
		opened, closed, acked := p.opened.Load(), p.closed.Load(), int(p.acked.Load())
		after := p.fs.afterCut(percent, rng)
		hi := int(p.begun.Load())
		lo := p.w.Synced(acked)
		if percent == 100 || closed {
			lo = acked
		}
		p.cuts++
		var err error
		if p.twice--; p.twice < 0 {
			p.twice = cutsPerSecond
			err = p.cutRecovery(after, opened, lo, hi, rng)
		} else {
			err = p.look(after, opened, lo, hi, rng)
		}
		if err != nil {
			p.failed = true
			p.t.Errorf("seed %d: power cut before operation %d (%s), %d%% of unsynced data kept, steps %d to %d: %v", p.w.Seed, n, what, percent, lo, hi, err)
			return
		}
	}
}

// cutsPerSecond is how many power cuts there are to one that is followed by others
// while the log recovers from it.
const cutsPerSecond = 173

// endOfRecovery describes the power cut after the last operation of a recovery.
const endOfRecovery = "end of recovery"

// cutRecovery opens the log on fs, reads it and closes it, and cuts the power again
// in front of every operation of that. What was read once must then stay.
func (p *powerCut) cutRecovery(fs disk, mustExist bool, lo, hi int, rng *rand.Rand) error {
	var first error
	cut := &crashtest.CutFS{FS: fs}
	again := func(n int, what string) {
		if what != endOfRecovery && !p.chosen(n) {
			return
		}
		for _, percent := range []int{0, 100, 1 + rng.IntN(99)} {
			if first != nil {
				return
			}
			p.cuts++
			after := fs.afterCut(percent, rng)
			if err := p.look(after, mustExist, lo, hi, rng); err != nil {
				first = fmt.Errorf("second power cut before operation %d (%s), %d%% of unsynced data kept, steps %d to %d: %w", n, what, percent, lo, hi, err)
			}
		}
	}
	cut.Before = again
	c := new(crashtest.Clock)
	l, err := pebblelog.Open(dir, options(cut, c, p.d))
	if err != nil {
		return errors.Join(first, err)
	}
	n, err := p.w.Verify(context.Background(), l, c, lo, hi)
	if err != nil {
		l.Close()
		return errors.Join(first, err)
	}
	cut.Do(func(ops int) {
		hi = n
		if n == 0 || p.w.Steps[n-1].Action.Single() { // else Verify may have committed the rest of it
			lo = n
		}
		again(ops, endOfRecovery)
	})
	return errors.Join(l.Close(), first)
}

// look opens what a power cut left and goes on with the workload for a while.
func (p *powerCut) look(fs disk, mustExist bool, lo, hi int, rng *rand.Rand) error {
	c := new(crashtest.Clock)
	o := options(fs, c, p.d)
	o.MustExist = mustExist
	l, err := pebblelog.Open(dir, o)
	if err != nil {
		return err
	}
	defer l.Close()
	ctx := context.Background()
	n, err := p.w.Verify(ctx, l, c, lo, hi)
	if err != nil {
		return err
	}
	last := min(max(n, hi)+3, len(p.w.Steps))
	if rng.IntN(50) == 0 {
		last = len(p.w.Steps)
	}
	if err := p.w.Resume(ctx, l, c, n, last); err != nil {
		return err
	}
	if err := leftovers(fs); err != nil {
		return err
	}
	return l.Close()
}

// leftovers reports what interrupted work has left in the directory for good.
func leftovers(fs vfs.FS) error {
	names, err := fs.List(dir + "/db")
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "backup-") || strings.HasSuffix(name, ".salvage") || strings.HasSuffix(name, ".tmp") {
			return fmt.Errorf("%s is still there after the log was opened", name)
		}
	}
	return nil
}
