package journal_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/crashtest"
	"github.com/mainstemdev/mainstem/internal/journal"
)

var every = flag.Int("journal.every", 4, "cut the power before one file operation of this many; with 1, at more seeds")

// killed is the percentage for a process that was killed, where the file system has that:
// then nothing is lost, but not more of it is on stable storage than before.
const killed = 100

// cuttable is a file system with simulated power cuts.
type cuttable interface {
	vfs.FS
	Cut(percent int, rng *rand.Rand) cuttable
}

type torn struct{ *crashtest.TornFS }

func (t torn) Cut(percent int, rng *rand.Rand) cuttable {
	if percent == killed {
		return torn{t.Kill()}
	}
	return torn{t.TornFS.Cut(percent, rng)}
}

type pages struct{ *vfs.MemFS }

func (p pages) Cut(percent int, rng *rand.Rand) cuttable {
	return pages{p.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})}
}

// powerTest runs random calls on a journal and cuts the power before every file
// operation that they make.
type powerTest struct {
	t    *testing.T
	seed uint64
	fs   cuttable
	l    ledger

	mu     sync.Mutex
	failed bool
	opened bool // Open has returned once
	cuts   int
}

// TestPowerCut cuts the power before file operations (see -journal.every), also of recovery. No frame
// that was synced is lost, none is invented or moved, and what is lost is an end. What a
// killed process leaves has every frame that was written.
func TestPowerCut(t *testing.T) {
	seeds := 2
	if *every == 1 {
		seeds = 10
	}
	if testing.Short() {
		seeds, *every = 1, 4**every
	}
	for name, fs := range map[string]func() cuttable{
		"sectors": func() cuttable { return torn{crashtest.NewTornFS()} },
		"pages":   func() cuttable { return pages{vfs.NewCrashableMem()} },
	} {
		for seed := range uint64(seeds) {
			t.Run(fmt.Sprintf("%s/seed=%d", name, seed), func(t *testing.T) {
				t.Parallel()
				p := &powerTest{t: t, seed: seed, fs: fs()}
				p.must(makeParent(p.fs))
				p.run()
				t.Logf("%d power cuts", p.cuts)
			})
		}
	}
}

// makeParent makes the directory that the journal's is made in, durably.
func makeParent(fs vfs.FS) error {
	if err := fs.MkdirAll("/data", 0o700); err != nil {
		return err
	}
	root, err := fs.OpenDir("/")
	if err != nil {
		return err
	}
	return errors.Join(root.Sync(), root.Close())
}

func (p *powerTest) run() {
	fs := &crashtest.CutFS{FS: p.fs, Before: p.cut}
	rng := rand.New(rand.NewPCG(p.seed, 2))
	j := p.open(fs)
	for range 60 {
		switch n := rng.IntN(20); {
		case n < 12:
			p.must(p.l.append(j, 1+rng.IntN(4), n < 4))
		case n < 14:
			p.absorb(j, rng)
		case n == 14:
			p.must(j.Rotate())
		case n == 15:
			p.absorb(j, rng)
			_ = j.Erase(p.l.position) // there may be later frames
		case n == 16:
			j.SyncWithin(0)
		case n == 17:
			p.absorb(j, rng)
			p.must(j.Shrink(p.l.position))
		case n < 20:
			p.must(j.Close())
			p.l.synced(len(p.l.attempts))
			j = p.open(fs)
		}
	}
	p.must(j.Close())
	p.l.synced(len(p.l.attempts))
	fs.Do(func(ops int) { p.cut(ops+1, endOfCalls) })
}

func (p *powerTest) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("seed %d: %v", p.seed, err)
	}
}

func (p *powerTest) open(fs vfs.FS) *journal.Journal {
	p.t.Helper()
	j, f, err := reopen(fs, p.l.position+1, small())
	p.must(err)
	p.must(p.l.check(f, written))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened = true
	return j
}

// absorb does what a store does: it needs some of the frames no more.
func (p *powerTest) absorb(j *journal.Journal, rng *rand.Rand) {
	p.must(j.Sync(j.Written()))
	p.l.synced(len(p.l.attempts))
	serial, position := p.l.absorbed, p.l.position
	for f, err := range j.Read(p.l.position + 1) {
		p.must(err)
		if rng.IntN(30) == 0 {
			break
		}
		one := found{}
		p.must(one.take(f))
		serial, position = one.serials[0], f.Last()
	}
	p.l.absorb(serial, position)
	p.must(j.TruncateFront(position))
}

// endOfCalls describes the power cut after the last operation.
const endOfCalls = "end"

// cut looks at what a power cut before operation n would leave.
func (p *powerTest) cut(n int, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed || n%*every != int(p.seed)%*every && what != endOfCalls {
		return
	}
	rng := rand.New(rand.NewPCG(p.seed, uint64(n)))
	for _, percent := range []int{0, killed, 1 + rng.IntN(99), 90} {
		p.cuts++
		before, o := p.l.clone(), small()
		o.Create = !p.opened
		fs := p.fs.Cut(percent, rng)
		if err := look(fs, p.l.since(before), o, percent, rng); err != nil {
			p.failed = true
			p.t.Errorf("seed %d: power cut before operation %d (%s), %d%% kept: %v", p.seed, n, what, percent, err)
			return
		}
	}
}

// look opens what a power cut left, with further power cuts on the way, and goes on.
func look(fs cuttable, l *ledger, o journal.Options, percent int, rng *rand.Rand) error {
	least := durable
	if percent == killed {
		least = written
	}
	first, f, err := recoverWithCuts(fs, l, o, least, rng)
	if err != nil {
		return err
	}
	// What was replayed once stays, and frames can be added.
	second := fs.Cut(0, rng)
	if err := first.Close(); err != nil {
		return err
	}
	from := l.position + 1
	o.Create = false
	j, again, err := reopen(second, from, o)
	if err != nil {
		return fmt.Errorf("second recovery: %w", err)
	}
	defer j.Close()
	if len(again.serials) != len(f.serials) {
		return fmt.Errorf("%d frames were replayed, then %d", len(f.serials), len(again.serials))
	}
	return addSome(second, j, again, from)
}

// recoverWithCuts opens the journal on fs, and cuts the power again before some of the
// file operations of that.
func recoverWithCuts(fs cuttable, l *ledger, o journal.Options, least outcome, rng *rand.Rand) (*journal.Journal, *found, error) {
	from := l.position + 1
	var first error
	cut := &crashtest.CutFS{FS: fs}
	cut.Before = func(n int, what string) {
		if first != nil || rng.IntN(4) > 0 {
			return
		}
		j, f, err := reopen(fs.Cut(rng.IntN(100), rng), from, o)
		if err == nil {
			err = l.check(f, durable)
			j.Close()
		}
		if err != nil {
			first = fmt.Errorf("power cut before operation %d of recovery (%s): %w", n, what, err)
		}
	}
	j, f, err := reopen(cut, from, o)
	if err != nil {
		return nil, nil, err
	}
	cut.Do(func(int) { cut.Before = nil })
	if first == nil {
		first = l.check(f, least)
	}
	if first != nil {
		j.Close()
		return nil, nil, first
	}
	return j, f, nil
}

// addSome appends to a recovered journal and reads it again.
func addSome(fs vfs.FS, j *journal.Journal, before *found, from mainstem.Position) error {
	const marker = 1 << 20 // serials that no attempt has
	for i := range 3 {
		f := frame(marker + i)
		if _, err := j.Commit(mainstem.Fsync, f); err != nil {
			return fmt.Errorf("append after recovery: %w", err)
		}
	}
	if err := j.Close(); err != nil {
		return err
	}
	j, after, err := reopen(fs, from, small())
	if err != nil {
		return fmt.Errorf("after appending to a recovered journal: %w", err)
	}
	if len(after.serials) != len(before.serials)+3 {
		return fmt.Errorf("%d frames after recovery, then 3 more, now %d", len(before.serials), len(after.serials))
	}
	return j.Close()
}
