package crashtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Shape says what a [Workload] is to be like.
type Shape struct {
	Seed  uint64
	Steps int
	// Durability of the log that runs the workload: what steps other than commits
	// ask for, and commits too unless Mixed.
	Durability mainstem.Durability
	Mixed      bool // each commit asks for a durability of its own
	Big        bool // some values over 64 KiB
	Small      bool // no value over 2 KiB
}

// The spaces of a workload: every layout that a policy can ask for.
var layouts = []struct {
	name   string
	policy mainstem.Policy
}{
	{"all", mainstem.Policy{}},
	{"one", mainstem.Policy{History: 1}},
	{"three", mainstem.Policy{History: 3, TombstoneAge: time.Hour}},
	{"quiet-all", mainstem.Policy{NoFeed: true}},
	{"quiet-one", mainstem.Policy{History: 1, NoFeed: true, TombstoneAge: -1}},
	{"aged", mainstem.Policy{History: 1, MaxAge: 90 * time.Minute}},
	{"aged-all", mainstem.Policy{MaxAge: 90 * time.Minute, Metadata: map[string]string{"kind": "test"}}},
	{"passing", mainstem.Policy{History: 2}},
}

// passing is the layout that is created and dropped again and again.
const passing = 7

// What a generated batch may hold.
const (
	keysPerSpace = 6
	maxWrites    = 8
	usualValue   = 200
	smallValue   = 1 << 10
	largeValue   = 6 << 10
	hugeValue    = 80 << 10
	hour         = time.Hour
)

// generator writes a workload while the reference log runs it.
type generator struct {
	shape Shape
	rng   *rand.Rand
	ref   Log
	clock *Clock
	now   time.Duration
	ids   []*mainstem.Batch
	big   int               // huge values left
	swept mainstem.Position // the head after the last step of several commits
}

// Generate makes a workload and runs it on ref, an empty log whose clock is c:
// what ref answers and holds after each step is what Verify and Resume expect.
// The same shape always makes the same workload.
func Generate(ctx context.Context, shape Shape, ref Log, c *Clock) (*Workload, error) {
	g := generator{shape: shape, rng: rand.New(rand.NewPCG(shape.Seed, 1)), ref: ref, clock: c, now: time.Second}
	if shape.Big {
		g.big = 3
	}
	w := &Workload{Seed: shape.Seed, durability: shape.Durability}
	empty, err := Take(ctx, ref)
	if err != nil {
		return nil, err
	}
	w.States = append(w.States, empty)
	for len(w.Steps) < shape.Steps {
		s, err := g.step(ctx, len(w.Steps))
		if err != nil {
			return nil, err
		}
		c.Set(s.At)
		s.Receipt, err = s.perform(ctx, ref)
		if err != nil {
			s.Failed, s.Kind = true, mainstem.KindOf(err)
		}
		c.Set(0)
		state, err := Take(ctx, ref)
		if err != nil {
			return nil, err
		}
		if !s.Action.Single() {
			g.swept = state.Head
		}
		w.Steps, w.States = append(w.Steps, s), append(w.States, state)
	}
	return w, nil
}

func (g *generator) step(ctx context.Context, n int) (Step, error) {
	g.now += time.Second
	pass := layouts[passing]
	s := Step{Space: pass.name, Policy: pass.policy}
	head, err := g.ref.Head(ctx)
	if err != nil {
		return Step{}, err
	}
	grown := head > g.swept // so that the head tells in which sweep a log was stopped
	switch r := g.rng.IntN(100); {
	case n%19 == 18 && grown:
		s.Action, g.now = Sweep, g.now+2*hour
		if n%38 == 37 {
			g.now += 25 * hour // batch IDs and tombstones go too
		}
	case n%23 == 22 && grown:
		l := layouts[g.rng.IntN(2)]
		s.Action, s.Space, s.Policy = Squeeze, l.name, l.policy
	case n%29 == 28:
		s.Action = Backup
	case r < 3:
		s.Action = Create
	case r < 6:
		s.Action = Drop
	case r < 9:
		s.Action = Alter
		s.Policy.TombstoneAge = time.Duration(g.rng.IntN(5)) * hour
		s.Policy.Metadata = map[string]string{"n": fmt.Sprint(n)}
	default:
		b, err := g.batch(ctx, n)
		s.Batch = b
		if err != nil {
			return Step{}, err
		}
	}
	s.At = g.now
	return s, nil
}

func (g *generator) batch(ctx context.Context, n int) (*mainstem.Batch, error) {
	if len(g.ids) > 0 && g.rng.IntN(25) == 0 {
		return g.ids[g.rng.IntN(len(g.ids))], nil // committed before: a duplicate, unless its ID is forgotten
	}
	b := mainstem.NewBatch()
	if g.shape.Mixed {
		b.Durability = []mainstem.Durability{mainstem.Fsync, mainstem.OS, mainstem.OS, mainstem.Interval(time.Hour)}[g.rng.IntN(4)]
	}
	for range 1 + g.rng.IntN(maxWrites) {
		if err := g.write(ctx, b); err != nil {
			return nil, err
		}
	}
	if g.rng.IntN(5) == 0 {
		if err := g.condition(ctx, b); err != nil {
			return nil, err
		}
	}
	if g.rng.IntN(2) == 0 {
		b.ID = fmt.Sprintf("batch-%d-%d", g.shape.Seed, n)
		g.ids = append(g.ids, b)
	}
	return b, nil
}

// write adds one write to b. Edits of history mostly name versions that exist.
func (g *generator) write(ctx context.Context, b *mainstem.Batch) error {
	at := g.rng.IntN(len(layouts))
	l := layouts[at]
	if at != passing || g.rng.IntN(4) > 0 {
		b.Ensure(l.name, l.policy)
	}
	key := g.key()
	w := mainstem.Write{Space: l.name, Key: key, Headers: g.headers()}
	r := g.rng.IntN(100)
	if r < 62 {
		g.put(&w, l.policy)
		b.Add(w)
		return nil
	}
	if r < 76 {
		w.Op = mainstem.OpDelete
		if r < 68 {
			w.Op = mainstem.OpPurge
		}
		b.Add(w)
		return nil
	}
	v, err := g.version(ctx, l.name, key)
	if err != nil {
		return err
	}
	switch {
	case r < 80:
		b.Add(mainstem.Write{Op: mainstem.OpForget, Space: l.name, Key: key})
	case v == 0:
		g.put(&w, l.policy)
		b.Add(w)
	case r < 88:
		b.Truncate(l.name, key, v)
	case r < 95:
		b.Rewrite(l.name, key, v, g.value(), w.Headers)
	default:
		b.Add(mainstem.Write{Op: mainstem.OpRemove, Space: l.name, Key: key, Version: v})
	}
	return nil
}

func (g *generator) put(w *mainstem.Write, p mainstem.Policy) {
	w.Value = g.value()
	if g.rng.IntN(10) == 0 {
		w.Count = uint32(2 + g.rng.IntN(9))
	}
	// In a space with a MaxAge a record may end in two ways, with and without a tombstone,
	// and which one a sweep meets first depends on when the log's own sweep runs.
	if g.rng.IntN(8) == 0 && p.MaxAge == 0 {
		w.TTL = time.Duration(1+g.rng.IntN(180)) * time.Minute
	}
}

func (g *generator) key() []byte {
	n := g.rng.IntN(keysPerSpace)
	switch n {
	case 0:
		return []byte("\x00k\x00\x01")
	case 1:
		key := make([]byte, 300)
		for i := range key {
			key[i] = byte(i)
		}
		return key
	}
	return fmt.Appendf(nil, "key-%d", n)
}

func (g *generator) value() []byte {
	switch r := g.rng.IntN(100); {
	case r < 3:
		return nil
	case r < 6:
		return []byte{}
	case r < 16:
		if g.shape.Small {
			return g.bytes(1<<10 + g.rng.IntN(smallValue))
		}
		return g.bytes(1<<10 + g.rng.IntN(largeValue))
	case r < 18 && g.big > 0:
		g.big--
		return g.bytes(64<<10 + g.rng.IntN(hugeValue-64<<10))
	}
	return g.bytes(1 + g.rng.IntN(usualValue))
}

// bytes returns n bytes that no compressor makes smaller.
func (g *generator) bytes(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(g.rng.Uint32())
	}
	return p
}

func (g *generator) headers() mainstem.Headers {
	if g.rng.IntN(5) > 0 {
		return nil
	}
	return mainstem.Headers{{Name: "type", Value: []byte("test")}, {Name: "type"}, {Name: "n", Value: g.bytes(5)}}
}

// version returns the version of one of the records that key holds, 0 if it holds none.
func (g *generator) version(ctx context.Context, space string, key []byte) (mainstem.Version, error) {
	var versions []mainstem.Version
	for rec, err := range g.ref.Read(ctx, space, key, mainstem.Versions{}) {
		if mainstem.KindOf(err) == mainstem.KindNotFound {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		versions = append(versions, rec.Version)
	}
	if len(versions) == 0 {
		return 0, nil
	}
	return versions[g.rng.IntN(len(versions))], nil
}

// condition adds a condition to b that mostly holds.
func (g *generator) condition(ctx context.Context, b *mainstem.Batch) error {
	l, key := layouts[g.rng.IntN(len(layouts))], g.key()
	v, err := g.version(ctx, l.name, key)
	switch {
	case err != nil:
		return err
	case v == 0:
		b.IfAbsent(l.name, key)
	case g.rng.IntN(2) == 0:
		b.IfVersion(l.name, key, v)
	default:
		b.IfExists(l.name, key)
	}
	return nil
}
