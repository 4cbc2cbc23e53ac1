package alert

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// run runs one statement.
func (ss *Session) run(ctx context.Context, st *osql.Statement) (*Rows, error) {
	r, err := ss.runPlain(ctx, st)
	if err != nil {
		return nil, ss.explain(ctx, err)
	}
	return r, nil
}

// runPlain is run without hints in its errors.
func (ss *Session) runPlain(ctx context.Context, st *osql.Statement) (*Rows, error) {
	if ss.s.ctx.Err() != nil {
		return nil, closed()
	}
	if err := ss.s.failed(); err != nil {
		return nil, err
	}
	began := time.Now()
	defer func() { ss.profile.note(ss.s.now(), time.Since(began)) }()
	sc := ss.s.schema.Load()
	p, err := ss.plan(sc, st)
	if err != nil {
		return nil, err
	}
	switch p.Verb {
	case osql.Select:
		return ss.query(ctx, st, sc, p)
	case osql.Describe:
		return ss.describe(p.Table), nil
	case osql.Use:
		return ss.use(p.DDL.Database)
	}
	if ss.info.ReadOnly {
		return nil, mainstem.Refusef(mainstem.KindDenied, "alert", "the session of %s only reads: %s is denied", ss.info.User, st.Verb())
	}
	var r Result
	switch p.Verb {
	case osql.Insert:
		r, err = ss.insert(ctx, st, p.Plan)
	case osql.Update, osql.Delete:
		r, err = ss.change(ctx, st)
	default:
		r, err = ss.define(ctx, st, p.Plan)
	}
	ss.rows.Add(r.Affected)
	return &Rows{result: r}, err
}

func (ss *Session) use(database string) (*Rows, error) {
	if _, ok := ss.s.schema.Load().databases[database]; !ok {
		return nil, mainstem.Refusef(mainstem.KindNotFound, "alert", "there is no database %s", database)
	}
	ss.database.Store(&database)
	return &Rows{}, nil
}

// query runs a SELECT that was planned for sc.
func (ss *Session) query(ctx context.Context, st *osql.Statement, sc *schema, p *planned) (*Rows, error) {
	for attempt := 0; ; attempt++ {
		if err := ss.s.fill(ctx, sc, p.Plan); err != nil {
			return nil, err
		}
		args, err := ss.bind(&p.Query, st.Literals, ss.s.now(), 0, 0)
		if err != nil {
			return nil, err
		}
		c, err := ss.s.mirror.open(ctx, p.types, p.Query.SQL, args)
		if err != nil {
			// A table that went while the statement was being translated is not SQLite's to report.
			if now := ss.s.schema.Load(); now != sc && attempt < maxAttempts {
				sc = now
				if p, err = ss.plan(sc, st); err != nil {
					return nil, err
				}
				continue
			}
			if ss.s.ctx.Err() != nil {
				return nil, closed()
			}
			return nil, err
		}
		r := &Rows{h: p.header(st.Literals), c: c, ctx: ctx}
		if p.Table != nil {
			r.table = sc.of(p.Table)
		}
		return r, nil
	}
}

// bind returns the values of a query's parameters.
func (ss *Session) bind(q *osql.Query, literals []osql.Literal, now time.Time, after int64, limit int) ([]driver.Value, error) {
	if err := q.Check(literals); err != nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "alert", "%w", err)
	}
	args := make([]driver.Value, len(q.Params))
	for i, p := range q.Params {
		switch p.Source {
		case osql.FromLiteral:
			args[i] = fromLiteral(&literals[p.Slot]).Any()
		case osql.FromNow:
			args[i] = now.Unix()
		case osql.FromServer:
			args[i] = ss.s.o.Name
		case osql.FromProperty:
			v, ok := ss.s.Property(literals[p.Slot].Text)
			if !ok {
				return nil, mainstem.Refusef(mainstem.KindNotFound, "alert", "the server has no property %.60q", literals[p.Slot].Text)
			}
			args[i] = v
		case osql.FromAfter:
			args[i] = after
		case osql.FromLimit:
			args[i] = int64(limit)
		}
	}
	return args, nil
}

// maxPartBytes ends a part of a statement that is several commits, besides [Options.BatchRows].
// With what joins a transaction before it, and the last row and its journal, it stays below the
// limit of a batch.
const maxPartBytes = 32 << 20

// change runs an UPDATE or DELETE, as many rows at a time as a commit may have.
func (ss *Session) change(ctx context.Context, st *osql.Statement) (Result, error) {
	var total Result
	after := int64(-1) << 62
	for {
		var more bool
		var last, affected int64
		at, err := ss.s.do(ctx, reading, func(t *tx) error {
			var err error
			affected, last, more, err = ss.changeSome(t, st, after, ss.s.o.BatchRows, t.bytes+ss.s.partBytes)
			return err
		})
		if err != nil {
			if total.Affected > 0 {
				err = partial(err, total.Affected)
			}
			return total, err
		}
		total.add(Result{Affected: affected, Position: at})
		if !more {
			return total, nil
		}
		after = last
	}
}

// target returns the plan of st for the transaction, and its table.
func (ss *Session) target(t *tx, st *osql.Statement) (*osql.Plan, *table, error) {
	p, err := ss.plan(t.schema, st)
	if err != nil {
		return nil, nil, err
	}
	tab := t.schema.of(p.Table)
	if tab == nil {
		return nil, nil, broken("planning a statement", fmt.Errorf("the table %s has changed", p.Table))
	}
	if tab.system {
		return nil, nil, mainstem.Refusef(mainstem.KindDenied, "alert", "the table %s is the server's: statements only read it", tab)
	}
	return p.Plan, tab, nil
}

// changeSome changes up to limit rows after one, fewer if the transaction comes to so many
// bytes. It returns how many it changed, the last it met, and whether there may be more.
func (ss *Session) changeSome(t *tx, st *osql.Statement, after int64, limit, bytes int) (affected, last int64, more bool, err error) {
	p, tab, err := ss.target(t, st)
	if err != nil {
		return 0, 0, false, err
	}
	now := ss.s.now()
	args, err := ss.bind(&p.Query, st.Literals, now, after, limit)
	if err != nil {
		return 0, 0, false, err
	}
	var found []*stored
	var set [][]Value
	err = ss.s.mirror.writer.each(t.ctx, func(row []driver.Value) error {
		r := readStored(tab, row)
		found = append(found, r)
		if p.Verb == osql.Update {
			values, err := assigned(tab, p, row[len(tab.Columns)+2:])
			set = append(set, values)
			return err
		}
		return nil
	}, p.Query.SQL, args...)
	if err != nil {
		var e *mainstem.Error
		if errors.As(err, &e) {
			return 0, 0, false, err
		}
		return 0, 0, false, mainstem.Refusef(mainstem.KindInvalid, "alert", "%w", err)
	}
	for i, r := range found {
		var ok bool
		if p.Verb == osql.Update {
			ok, err = ss.updateRow(t, tab, r, p.Set, set[i], now)
		} else {
			ok, err = ss.deleteRow(t, tab, r, now)
		}
		if err != nil {
			return 0, 0, false, err
		}
		if ok {
			affected++
		}
		last = r.k
		if t.bytes >= bytes {
			return affected, last, true, nil
		}
	}
	return affected, last, len(found) == limit, nil
}

// assigned returns what an UPDATE gives the columns of its SET.
func assigned(tab *table, p *osql.Plan, row []driver.Value) ([]Value, error) {
	out := make([]Value, len(p.Set))
	for i, col := range p.Set {
		c := &tab.Columns[col]
		v, err := fit(fromAny(row[i]), c)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

// fromAny converts what SQLite returned for an expression of any type.
func fromAny(x driver.Value) Value {
	switch x.(type) {
	case string, []byte:
		return fromSQL(x, osql.Varchar)
	case float64:
		return fromSQL(x, osql.Real)
	case nil:
		return Value{}
	}
	return fromSQL(x, osql.Integer64)
}

func (ss *Session) updateRow(t *tx, tab *table, old *stored, columns []int, values []Value, now time.Time) (bool, error) {
	next := append([]Value(nil), old.values...)
	for i, col := range columns {
		next[col] = values[i]
	}
	e := &RowEvent{Now: now, Server: ss.s.o.Name, Session: ss.info, New: Row{tab.header, next}}
	if len(ss.s.automations.on(OnUpdate, tab)) > 0 {
		e.Old = Row{tab.header, old.values}.clone()
		if _, err := t.fire(OnUpdate, tab, e); err != nil || e.canceled {
			return false, err
		}
	}
	ss.s.counts.note(tab, OnUpdate)
	if err := t.replace(tab, old, next); err != nil || e.journal == nil {
		return true, err
	}
	return true, ss.note(t, e)
}

// replace updates a row, whose key and serial have to stay.
func (t *tx) replace(tab *table, old *stored, next []Value) error {
	for i := range tab.Columns {
		if c := &tab.Columns[i]; (c.PrimaryKey || i == tab.incr) && next[i] != old.values[i] {
			return mainstem.Refusef(mainstem.KindInvalid, "alert", "the column %s of %s cannot be changed", c.Name, tab)
		}
	}
	if slices.Equal(old.values, next) {
		return nil
	}
	return t.write(tab, old, &stored{k: old.k, version: old.version, values: next})
}

func (ss *Session) deleteRow(t *tx, tab *table, old *stored, now time.Time) (bool, error) {
	if len(ss.s.automations.on(OnDelete, tab)) > 0 {
		e := &RowEvent{Now: now, Server: ss.s.o.Name, Session: ss.info, Old: Row{tab.header, old.values}.clone()}
		if _, err := t.fire(OnDelete, tab, e); err != nil || e.canceled {
			return false, err
		}
	}
	ss.s.counts.note(tab, OnDelete)
	return true, t.write(tab, old, nil)
}

// Together runs the statements of text, which must be INSERT, UPDATE or DELETE,
// in one commit: all of them or none, each seeing what those before it did. None may
// change more than [MaxTogether] rows.
func (ss *Session) Together(ctx context.Context, text string, args ...any) (Result, error) {
	statements, err := split(text, args)
	if err != nil {
		return Result{}, err
	}
	if ss.info.ReadOnly {
		return Result{}, mainstem.Refusef(mainstem.KindDenied, "alert", "the session of %s only reads", ss.info.User)
	}
	m := trial
	if len(statements) == 1 {
		m = reading
	}
	var total Result
	at, err := ss.s.do(ctx, m, func(t *tx) error {
		total = Result{}
		for i := range statements {
			t.trial = i < len(statements)-1 // nothing reads after the last one
			r, err := ss.step(t, &statements[i])
			if err != nil {
				return err
			}
			total.add(r)
		}
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	total.Position = at
	ss.rows.Add(total.Affected)
	return total, nil
}

// step runs one statement inside of a transaction.
func (ss *Session) step(t *tx, st *osql.Statement) (Result, error) {
	p, err := ss.plan(t.schema, st)
	if err != nil {
		return Result{}, err
	}
	switch p.Verb {
	case osql.Insert:
		_, r, err := ss.insertRows(t, st, 0, len(p.Rows), math.MaxInt)
		return r, err
	case osql.Update, osql.Delete:
		affected, _, more, err := ss.changeSome(t, st, -1<<62, MaxTogether+1, math.MaxInt)
		if err == nil && more {
			err = mainstem.Refusef(mainstem.KindInvalid, "alert", "the statement changes more than %d rows, the limit of one commit", MaxTogether)
		}
		return Result{Affected: affected}, err
	}
	return Result{}, mainstem.Refusef(mainstem.KindInvalid, "alert", "%s cannot share a commit: only INSERT, UPDATE and DELETE can", st.Verb())
}
