package enginetest

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/mainstemdev/mainstem"
)

// generator makes random programs of what f offers.
type generator struct {
	*rand.Rand
	f    Features
	time bool // records may expire: time can be made to pass, and a sweep be asked for
	set  bool // the clock may be set
	age  bool // records may get old
	ops  []mainstem.Op

	removed [][2]int // spaces and keys of which the program removes records
}

// generate returns a program.
func generate(r *rand.Rand, f Features) program {
	g := generator{Rand: r, f: f, time: f.Clock != nil && f.Expiry && f.MaxAge}
	// How often an operation is in the list is how likely it is.
	g.ops = []mainstem.Op{0, 0, 0, 0, 0, 0, mainstem.OpDelete, mainstem.OpDelete, mainstem.OpPurge}
	for _, op := range []mainstem.Op{mainstem.OpForget, mainstem.OpTruncate, mainstem.OpRewrite, mainstem.OpRemove} {
		if !f.lacks(op) {
			g.ops = append(g.ops, op)
		}
	}
	all := commitStep{}
	for i := range universe {
		if g.usable(i) {
			all.ensures = append(all.ensures, i)
		}
	}
	g.set = g.time && f.ClockKeeper && !f.SteadyClock && g.chance(30)
	g.age = g.time && (!g.set || g.chance(50))
	p := program{all}
	for len(p) < f.Steps {
		p = append(p, g.step())
	}
	return p
}

// usable reports whether the engine offers the policy of a space.
func (g *generator) usable(space int) bool {
	return g.age || universe[space].policy.MaxAge == 0
}

// space and key prefer the first ones, so that some keys are written often.
func (g *generator) space() int {
	for {
		if i := min(g.IntN(len(universe)), g.IntN(2*len(universe))); g.usable(i) {
			return i
		}
	}
}

func (g *generator) key() int { return min(g.IntN(len(keys)), g.IntN(2*len(keys))) }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) step() step {
	if g.set && g.chance(10) {
		return g.clock()
	}
	switch n := g.IntN(100); {
	case n < 50:
		return g.commit()
	case n < 54:
		return getStep{g.space(), g.key()}
	case n < 57:
		return g.many()
	case n < 65:
		return g.scan()
	case n < 73:
		return readStep{space: g.space(), key: g.key(), from: g.few(), to: g.few(), reverse: g.chance(50), limit: g.few()}
	case n < 82:
		return g.feed()
	case n < 86:
		return infoStep{g.space()}
	case n < 88:
		return listStep{[]string{"", "a", "a/", "q", "x"}[g.IntN(5)]}
	case n < 89:
		return headStep{}
	case n < 90:
		return createStep{g.space()}
	case n < 92:
		return dropStep{g.space()}
	case n < 94:
		return g.alter()
	case n < 95 && g.f.Reopen != nil:
		return restartStep{}
	case n < 98 && g.time:
		return passStep{time.Duration(g.IntN(6)+1) * 10 * time.Second}
	}
	return snapshotStep{}
}

// clock returns a step about the clock.
func (g *generator) clock() step {
	switch n := g.IntN(10); {
	case n < 2:
		return acceptStep{}
	case n < 4:
		return passStep{[]time.Duration{10 * time.Second, time.Minute, 30 * time.Minute, 2 * time.Hour}[g.IntN(4)]}
	}
	return setStep{d: clockSteps[g.IntN(len(clockSteps))], restart: g.f.Reopen != nil && g.chance(8), write: g.chance(50)}
}

// alter prefers extremes, where the engine offers all that they limit.
func (g *generator) alter() step {
	s := alterStep{space: g.space(), mark: []string{"x", "y"}[g.IntN(2)], flip: g.chance(20)}
	if g.time && g.f.MaxBytes && g.chance(70) {
		s.extreme = g.IntN(len(extremes))
	}
	return s
}

// ttl returns a time to live, now and then the shortest or one of the longest.
func (g *generator) ttl() time.Duration {
	if g.chance(25) {
		return []time.Duration{1, math.MaxInt64, math.MaxInt64 - 1}[g.IntN(3)]
	}
	return time.Duration(g.IntN(5)*10+5) * time.Second
}

// few returns 0 half of the time, else a small number.
func (g *generator) few() int {
	if g.chance(50) {
		return 0
	}
	return g.IntN(6) + 1
}

func (g *generator) bound() []byte {
	if g.chance(60) {
		return nil
	}
	return key(g.key())
}

func (g *generator) many() step {
	s := manyStep{space: g.space()}
	for g.chance(80) || len(s.keys) == 0 {
		s.keys = append(s.keys, g.IntN(len(keys)))
	}
	return s
}

func (g *generator) scan() step {
	return scanStep{g.space(), mainstem.Range{
		Prefix: g.bound(), Start: g.bound(), End: g.bound(), Reverse: g.chance(50), Limit: g.few(), KeysOnly: g.chance(20), Tombstones: g.chance(40),
	}}
}

func (g *generator) feed() step {
	s := feedStep{after: g.few() * 7, limit: g.few()}
	for g.chance(45) {
		s.spaces = append(s.spaces, universe[g.space()].name)
	}
	if g.chance(20) {
		s.prefix = keys[g.key()]
	}
	return s
}

func (g *generator) commit() step {
	var s commitStep
	if g.chance(10) {
		s.id = g.IntN(5) + 1
	}
	if g.chance(15) {
		s.ensures = append(s.ensures, g.space())
	}
	for g.chance(15) {
		delta := 0
		if g.chance(30) {
			delta = g.IntN(5) - 2
		}
		c := plannedCondition{g.space(), g.key(), min(mainstem.Test(g.IntN(6)), mainstem.TestNotAfter), delta}
		if c.test == mainstem.TestNotAfter {
			c.delta = -g.IntN(2)
			if n := len(g.removed); n > 0 && g.chance(70) {
				at := g.removed[n-1-min(g.IntN(n), g.IntN(n))]
				c.space, c.key = at[0], at[1]
			}
		}
		s.conditions = append(s.conditions, c)
	}
	forgotten := map[[2]int]bool{} // what version such a key gets next in the same batch is not said
	for g.chance(70) || len(s.writes) == 0 {
		w := g.write()
		at := [2]int{w.space, w.key}
		if forgotten[at] {
			continue
		}
		forgotten[at] = w.op == mainstem.OpForget
		if w.op == mainstem.OpForget || w.op == mainstem.OpTruncate || w.op == mainstem.OpRemove {
			g.removed = append(g.removed, at)
		}
		s.writes = append(s.writes, w)
	}
	return s
}

func (g *generator) write() plannedWrite {
	w := plannedWrite{space: g.space(), key: g.key(), op: g.ops[g.IntN(len(g.ops))], value: g.IntN(len(values)), header: g.chance(20)}
	switch w.op {
	case mainstem.OpPut:
		if g.chance(25) {
			w.count = uint32(g.IntN(4))
		}
		// Where MaxAge may remove a record first, whether its expiry is told is not said.
		if g.time && universe[w.space].policy.MaxAge == 0 && g.chance(25) {
			w.ttl = g.ttl()
		}
	case mainstem.OpTruncate:
		w.delta = -g.IntN(5)
		if g.chance(5) {
			w.delta = 2
		}
	case mainstem.OpRewrite, mainstem.OpRemove:
		w.delta = g.IntN(4)
		if g.chance(5) {
			w.delta = -1
		}
	}
	return w
}
