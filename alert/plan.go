package alert

import (
	"sync"

	"github.com/mainstemdev/mainstem/alert/osql"
)

// plans keeps the translations of statements for one generation of the schema.
type plans struct {
	sync.RWMutex
	generation uint64
	byKey      map[string]*planned
	bytes      int // of all in byKey, as planned.size estimates
}

// planned is a translation, and of a SELECT what all its results share.
type planned struct {
	*osql.Plan
	types []Type
	h     *header // nil if names of columns depend on the literals
}

func newPlanned(p *osql.Plan) *planned {
	out := &planned{Plan: p, types: make([]Type, len(p.Names))}
	fixed := true
	for i := range p.Names {
		out.types[i] = p.Names[i].Type
		fixed = fixed && p.Names[i].Name != ""
	}
	if fixed {
		out.h = out.header(nil)
	}
	return out
}

// header returns the columns of the result of a SELECT with these literals.
func (p *planned) header(literals []osql.Literal) *header {
	if p.h != nil {
		return p.h
	}
	columns := make([]Column, len(p.Names))
	for i := range p.Names {
		columns[i] = p.Names[i].Column
		columns[i].ID, columns[i].Name = 0, p.Names[i].Text(literals)
	}
	return newHeader(columns)
}

// Limits of the plans that are kept. When one is reached, all are forgotten, so a plan that would take
// more than maxPlan of maxPlanBytes is not kept at all.
const (
	maxPlans     = 2000
	maxPlanBytes = 64 << 20
	maxPlan      = maxPlanBytes / 8
)

// size estimates, rather too much, the bytes of a plan and its key: for each byte of the key up to 11,
// or 72 if columns have the texts of expressions as names, as the plan then has the parsed
// statement, and for each column of the result 200.
func (p *planned) size(key string) int {
	each := 16
	if p.h == nil {
		each = 80
	}
	return 1<<10 + each*len(key) + 256*len(p.Names)
}

// planKey returns the key of the plan of st, and the database that USE has chosen.
func (ss *Session) planKey(st *osql.Statement) (key, database string) {
	if d := ss.database.Load(); d != nil {
		return *d + "\x00" + st.Key, *d
	}
	return st.Key, ""
}

// cached returns the plan of st for the tables of sc if it is known, else nil.
func (ss *Session) cached(sc *schema, st *osql.Statement) *planned {
	key, _ := ss.planKey(st)
	c := &ss.s.plans
	c.RLock()
	defer c.RUnlock()
	if c.generation != sc.generation {
		return nil
	}
	return c.byKey[key]
}

// plan translates st for the tables of sc.
func (ss *Session) plan(sc *schema, st *osql.Statement) (*planned, error) {
	if p := ss.cached(sc, st); p != nil {
		return p, nil
	}
	key, database := ss.planKey(st)
	c := &ss.s.plans
	translated, err := osql.Translate(st, sc, database)
	if err != nil {
		return nil, err
	}
	p := newPlanned(translated)
	c.keep(sc.generation, key, p)
	return p, nil
}

// keep keeps a plan for the tables of a generation.
func (c *plans) keep(generation uint64, key string, p *planned) {
	size := p.size(key)
	if size > maxPlan {
		return
	}
	c.Lock()
	defer c.Unlock()
	if c.generation > generation || c.generation == generation && c.byKey[key] != nil {
		return
	}
	if c.generation < generation || len(c.byKey) >= maxPlans || c.bytes+size > maxPlanBytes || c.byKey == nil {
		c.generation, c.byKey, c.bytes = generation, map[string]*planned{}, 0
	}
	c.byKey[key] = p
	c.bytes += size
}
