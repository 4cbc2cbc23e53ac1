package projection

import (
	"context"
	"sync"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/wake"
	"github.com/mainstemdev/mainstem/kv"
)

// generation is everything that a unit runs while its control row stays the same: the set of
// subscriptions that write the tables that are read, the set that builds new tables, and the
// goroutine that makes the steps of a change.
type generation struct {
	u      *unit
	ctl    control            // the row; does not change
	ctx    context.Context    // of all goroutines; ends with end
	cancel context.CancelFunc // ends ctx
	wg     sync.WaitGroup     // all goroutines

	mu sync.Mutex   // guards the fields below
	is kv.Condition // that the row is ctl; its revision may be newer than that of the beginning
	// ended is true once the row was seen to differ. It stays true even if the row changes back,
	// because subscriptions that saw the difference wait for the end of the generation.
	ended bool
}

// newGeneration returns a generation for the row ctl. The condition is requires that the row is
// unchanged.
func newGeneration(ctx context.Context, u *unit, ctl control, is kv.Condition) *generation {
	g := &generation{u: u, ctl: ctl, is: is}
	g.ctx, g.cancel = context.WithCancel(ctx)
	return g
}

// begin starts what the row says, and sets the state of the unit.
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
	g.wg.Go(func() { g.drive(g.step) })
	g.beginReplay()
}

// start runs a set until the generation ends.
func (g *generation) start(s *set) { g.wg.Go(s.run) }

// end cancels the goroutines and waits for them.
func (g *generation) end() {
	g.cancel()
	g.wg.Wait()
}

// wait waits until the goroutines have ended by themselves, which they do when the engine stops.
func (g *generation) wait() {
	g.wg.Wait()
	g.cancel()
}

// over reports whether the generation is to end.
func (g *generation) over() bool { return g.u.over(g.ctx) }

// expect adds to b the condition that the row is the one of this generation.
func (g *generation) expect(b *mainstem.Batch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.u.e.controls.table.ExpectTo(b, g.u.p.name, g.is)
}

// recheck reads the row again. If it still says the same, recheck keeps its revision for later
// commits. Otherwise current is false, and the unit is signalled to end the generation.
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

// isEnded reports whether recheck has found another row.
func (g *generation) isEnded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended
}

// untilLeaving returns a context that ends with that of the generation, when the engine stops, and
// when cancel is called. It must be called by a goroutine of the generation.
func (g *generation) untilLeaving() (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancel = context.WithCancel(g.ctx)
	g.wg.Go(func() {
		select {
		case <-g.u.leaving:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

// drive makes a step that the row asks for, and tries again until it is made, by this engine or by
// another. It ends at once when the engine stops.
func (g *generation) drive(step func(context.Context) error) {
	ctx, cancel := g.untilLeaving()
	defer cancel()
	for n := 1; ctx.Err() == nil; n++ {
		err := step(ctx)
		switch {
		case err == nil:
			wake.Signal(g.u.woken) // the row has changed, if there was a step to make
			return
		case ctx.Err() != nil:
			return
		case mainstem.KindOf(err) == mainstem.KindConflict:
			wake.Signal(g.u.woken)
		case mainstem.KindOf(err) != mainstem.KindNotFound: // NotFound: a checkpoint is not written yet
			g.u.e.opts.Logger.Warn("a projection cannot be changed yet", "store", g.u.e.store.Name(), "projection", g.u.p.name, "error", err)
		}
		again.Wait(ctx, n)
	}
}

// commit commits b together with a change of the row, on condition that the row is the one of the
// generation.
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

// set is the subscriptions of a generation that write one version of the tables, or the tables of a
// replay.
type set struct {
	g      *generation
	n      int               // number of subscriptions
	build  int               // the version that they build; 0 for the tables that are read
	tables int               // version of the tables that they write
	until  mainstem.Position // where they end; 0 means without end
	into   map[string]string // the tables that a replay writes, by those of the projection; else nil
}

// name returns the name of the set in the leases.
func (s *set) name() string { return setName(s.g.u.p.name, s.build) }

// part returns the subscription number i of the set, from 0.
func (s *set) part(i int) *part {
	p := &part{set: s, u: s.g.u, name: subscriptions(s.g.u.p.name, s.build, s.n)[i], stopping: make(chan struct{})}
	p.opts = *s.g.u.opts
	if s.n > 1 {
		p.opts.Partitions, p.opts.Partition = s.n, i
	}
	if p.opts.Until = s.until; s.until > 0 {
		p.opts.Tail = false
	}
	if s.into != nil {
		p.name, p.opts.After = replaySet(s.g.u.p.name, s.g.ctl.Replay), 0
	}
	if s.build > 0 {
		p.opts.After, p.opts.Tail = s.g.ctl.From, false
	}
	return p
}

// run runs the subscriptions of the set in this engine. A single one runs in every engine: its
// checkpoint decides which engine's commit succeeds. Of several, an engine runs those that it has
// the leases of.
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

// closing bounds the time in which leases are released.
const closing = 5 * time.Second
