package projection

import (
	"context"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/kv"
)

// generation is what runs of a projection while its control row stays the same.
type generation struct {
	u      *unit
	ctl    control
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex   // guards the fields below
	is    kv.Condition // the row is ctl
	ended bool         // the row was seen to be another: what waits for the end counts on it, even if it changes back
}

func newGeneration(ctx context.Context, u *unit, ctl control, is kv.Condition) *generation {
	g := &generation{u: u, ctl: ctl, is: is}
	g.ctx, g.cancel = context.WithCancel(ctx)
	return g
}

// begin starts what the row says.
func (g *generation) begin() {
	ctl, u := &g.ctl, g.u
	if u.live != nil {
		g.beginLive()
		return
	}
	if ctl.Inline {
		u.set(Faulted, errInline(u.p.name))
		return
	}
	ours, builds := ctl.Version == u.p.version, ctl.Next > 0 && ctl.NextVersion == u.p.version
	switch {
	case ctl.Rebuilding, ctl.Next > 0:
		u.set(Rebuilding, nil)
	case ctl.Paused:
		u.set(Paused, nil)
	case !ours:
		u.set(Faulted, &VersionError{Name: u.p.name, Have: ctl.Version, Want: u.p.version})
	case ctl.Frozen:
		u.set(CatchingUp, nil)
	default:
		u.set(Running, nil)
	}
	if ours && !ctl.Paused && !ctl.Rebuilding && !ctl.Frozen && (ctl.Next == 0 || !ctl.Aligning) {
		g.start(&set{g: g, n: ctl.partitions(), tables: ctl.Build, until: ctl.Upto})
	}
	if builds && !ctl.Frozen {
		g.start(&set{g: g, n: ctl.partitions(), build: ctl.Next, tables: ctl.Next, until: max(ctl.To, ctl.Upto)})
	}
	g.wg.Go(g.drive)
}

func (g *generation) start(s *set) { g.wg.Go(s.run) }

// end ends it at once.
func (g *generation) end() {
	g.cancel()
	g.wg.Wait()
}

// wait waits until it has ended by itself, which it does when the engine stops.
func (g *generation) wait() {
	g.wg.Wait()
	g.cancel()
}

func (g *generation) over() bool { return g.u.over(g.ctx) }

// expect adds to b the condition that the row is as this generation knows it.
func (g *generation) expect(b *mainstem.Batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.u.e.controls.table.ExpectTo(b, g.u.p.name, g.is)
}

// recheck reads the row again, and notes its revision if it says the same. Otherwise current is false, and the
// generation is about to end.
func (g *generation) recheck(ctx context.Context) (current bool, err error) {
	now, is, _, err := g.u.e.controls.get(ctx, g.u.p.name)
	if err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if now != g.ctl || g.ended {
		g.ended = true
		wake.Signal(g.u.woken)
		return false, nil
	}
	g.is = is
	return true, nil
}

// isEnded reports whether recheck has said that the generation is about to end.
func (g *generation) isEnded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended
}

// drive makes the steps that the row asks for.
func (g *generation) drive() {
	ctx, cancel := context.WithCancel(g.ctx)
	defer cancel()
	go func() { // so that nothing is waited for when the engine stops
		select {
		case <-g.u.leaving:
			cancel()
		case <-ctx.Done():
		}
	}()
	for n := 1; ctx.Err() == nil; n++ {
		err := g.step(ctx)
		switch {
		case err == nil:
			wake.Signal(g.u.woken) // if it was a step, the row has changed
			return
		case ctx.Err() != nil:
			return
		case mainstem.KindOf(err) == mainstem.KindConflict:
			wake.Signal(g.u.woken)
		case mainstem.KindOf(err) != mainstem.KindNotFound: // a checkpoint that is not written yet
			g.u.e.opts.Logger.Warn("a projection cannot be changed yet", "store", g.u.e.store.Name(), "projection", g.u.p.name, "error", err)
		}
		again.Wait(ctx, n)
	}
}

// commit changes the row, and what else b does, if it is still the one of the generation.
func (g *generation) commit(ctx context.Context, b *mainstem.Batch, change func(*control)) error {
	next := g.ctl
	change(&next)
	g.mu.Lock()
	is := g.is
	g.mu.Unlock()
	g.u.e.controls.table.PutTo(b, g.u.p.name, next, is)
	_, err := g.u.e.store.Log().Commit(ctx, b)
	if mainstem.KindOf(err) == mainstem.KindConflict {
		if _, rerr := g.recheck(ctx); rerr != nil {
			return rerr
		}
	}
	return err
}

// set is the subscriptions that write one version of the tables.
type set struct {
	g      *generation
	n      int               // how many they are
	build  int               // the version that they build; 0 if it is the one that is read
	tables int               // version of the tables
	until  mainstem.Position // where they end; 0: nowhere
}

// name is what the set is called in the leases.
func (s *set) name() string { return setName(s.g.u.p.name, s.build) }

// part returns the set's subscription of a number.
func (s *set) part(i int) *part {
	p := &part{set: s, u: s.g.u, name: subscriptions(s.g.u.p.name, s.build, s.n)[i], stopping: make(chan struct{})}
	p.opts = *s.g.u.opts
	if s.n > 1 {
		p.opts.Partitions, p.opts.Partition = s.n, i
	}
	if p.opts.Until = s.until; s.until > 0 {
		p.opts.Tail = false
	}
	if s.build > 0 {
		p.opts.After, p.opts.Tail = s.g.ctl.From, false
	}
	return p
}

// run runs the subscriptions that are this engine's: the only one, whose checkpoint decides between engines, or
// those that it has the leases of.
func (s *set) run() {
	if s.n > 1 {
		s.share()
		return
	}
	p := s.part(0)
	s.g.u.add(p)
	defer s.g.u.remove(p)
	p.run(s.g.ctx)
}

// closing is how long leases are given up for at the most, when an engine stops.
const closing = 5 * time.Second
