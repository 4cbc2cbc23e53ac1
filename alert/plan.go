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

// maxPlans bounds the plans that are kept; when it is reached, they are forgotten.
const maxPlans = 2000

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
	c.Lock()
	defer c.Unlock()
	switch {
	case c.generation > sc.generation:
		return p, nil
	case c.generation < sc.generation || len(c.byKey) >= maxPlans || c.byKey == nil:
		c.generation, c.byKey = sc.generation, map[string]*planned{}
	}
	c.byKey[key] = p
	return p, nil
}
