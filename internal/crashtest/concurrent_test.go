package crashtest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
)

// TestPowerCutConcurrent cuts the power while several writers commit at once, so
// that batches are grouped, and a follower reads.
func TestPowerCutConcurrent(t *testing.T) {
	for name, pick := range map[string]func(n int) mainstem.Durability{
		"fsync": func(int) mainstem.Durability { return mainstem.Fsync },
		"mixed": func(n int) mainstem.Durability {
			return []mainstem.Durability{mainstem.Fsync, mainstem.OS, mainstem.OS}[n%3]
		},
	} {
		for _, seed := range seeds(1, 40) {
			t.Run(fmt.Sprintf("%s/seed=%d", name, seed), func(t *testing.T) {
				t.Parallel()
				c := &crowd{t: t, seed: seed, pick: pick, fs: vfs.NewCrashableMem(), acks: make([][]ack, writers), chosen: sample(t), every: 9, firm: name == "fsync"}
				c.run(40)
				t.Logf("%d power cuts", c.cuts)
			})
		}
	}
}

// ack is an acknowledged entry of a ledger.
type ack struct {
	last   mainstem.Position
	synced bool
}

// crowd is several writers and a follower on a file system whose power is cut.
type crowd struct {
	t      *testing.T
	seed   uint64
	pick   func(n int) mainstem.Durability
	fs     *vfs.MemFS
	every  int              // operations from one moment for a cut to the next
	chosen func(n int) bool // which of these moments are taken
	firm   bool             // all commits ask for Fsync

	mu   sync.Mutex
	acks [][]ack // by writer, in order
	seen atomic.Uint64

	cuts   int // only the cut under way touches these
	failed bool
}

func (c *crowd) run(entries int) {
	fs := &crashtest.CutFS{FS: c.fs, Before: c.cut}
	l, err := pebblelog.Open(dir, options(fs, new(crashtest.Clock), mainstem.Fsync))
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var follower, all sync.WaitGroup
	follower.Go(func() { c.follow(ctx, l) })
	for w := range writers {
		all.Go(func() {
			for n := 1; n <= entries; n++ {
				d := c.pick(w + n)
				r, err := l.Commit(ctx, crashtest.LedgerBatch(w, n, d))
				if err != nil {
					c.t.Errorf("writer %d, entry %d: %v", w, n, err)
					return
				}
				c.mu.Lock()
				c.acks[w] = append(c.acks[w], ack{r.Last, d == mainstem.Fsync})
				c.mu.Unlock()
			}
		})
	}
	all.Wait()
	stop()
	follower.Wait()
	if err := l.Close(); err != nil {
		c.t.Error(err)
	}
}

// follow notes up to where a reader has seen the log.
func (c *crowd) follow(ctx context.Context, l mainstem.Log) {
	for rec, err := range l.Feed(ctx, mainstem.Filter{Follow: true}) {
		if err != nil {
			if mainstem.KindOf(err) != mainstem.KindCanceled {
				c.t.Errorf("following: %v", err)
			}
			return
		}
		c.seen.Store(uint64(rec.Position))
	}
}

func (c *crowd) cut(n int, what string) {
	if n%c.every != 0 || !c.chosen(n/c.every) || c.failed {
		return
	}
	rng := rand.New(rand.NewPCG(c.seed, uint64(n)))
	for _, percent := range []int{0, 100, 1 + rng.IntN(99)} {
		c.mu.Lock()
		acks := make([][]ack, len(c.acks))
		for w := range acks {
			acks[w] = slices.Clone(c.acks[w])
		}
		c.mu.Unlock()
		seen := mainstem.Position(c.seen.Load())
		after := c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
		c.cuts++
		if err := c.look(after, acks, seen, percent == 100); err != nil {
			c.failed = true
			c.t.Errorf("seed %d: power cut before operation %d (%s), %d%% of unsynced data kept: %v", c.seed, n, what, percent, err)
			return
		}
	}
}

// look checks what is left after a power cut, or after a kill: whole entries only, a
// prefix of the order of commits, with everything in it that was synced or, after
// a kill, acknowledged.
func (c *crowd) look(fs vfs.FS, acks [][]ack, seen mainstem.Position, killed bool) error {
	ctx := context.Background()
	l, err := pebblelog.Open(dir, options(fs, new(crashtest.Clock), mainstem.Fsync))
	if err != nil {
		return err
	}
	defer l.Close()
	if err := crashtest.Check(ctx, l); err != nil {
		return err
	}
	lengths := make([]int, writers)
	for w := range lengths {
		if lengths[w], err = crashtest.LedgerLength(ctx, l, w); err != nil {
			return err
		}
	}
	if err := crashtest.VerifyLedger(ctx, l, lengths); err != nil {
		return err
	}
	head, err := l.Head(ctx)
	if err != nil {
		return err
	}
	var durable mainstem.Position
	for w := range acks {
		for _, a := range acks[w] {
			if a.synced || killed {
				durable = max(durable, a.last)
			}
		}
	}
	if c.firm || killed { // what a reader saw stays
		durable = max(durable, seen)
	}
	if head < durable {
		return fmt.Errorf("the log ends at position %d; %d was acknowledged or read, and durable", head, durable)
	}
	for w := range acks {
		for i, a := range acks[w] {
			if there := i < lengths[w]; there != (a.last <= head) {
				return fmt.Errorf("the log ends at position %d; entry %d of writer %d ended at %d: present %t", head, i+1, w, a.last, there)
			}
		}
	}
	return nil
}
