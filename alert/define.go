package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// define runs a statement that changes what there is, not what is in it.
func (ss *Session) define(ctx context.Context, st *osql.Statement, p *osql.Plan) (Result, error) {
	d := p.DDL
	switch p.Verb {
	case osql.AlterTrigger:
		set := ss.s.enable
		if d.Group {
			set = ss.s.enableGroup
		}
		at, err := set(ctx, d.Name, d.Enabled)
		return Result{Position: at}, err
	case osql.ServiceUpdate:
		return ss.service(ctx, st.Literals[d.Slots[0]].Text, st.Literals[d.Slots[1]].Int)
	}
	at, err := ss.s.do(ctx, reading, func(t *tx) error {
		p, err := ss.plan(t.schema, st) // the tables may have changed
		if err != nil {
			return err
		}
		return t.define(st, p.Plan)
	})
	return Result{Position: at}, err
}

func (t *tx) define(st *osql.Statement, p *osql.Plan) error {
	switch p.Verb {
	case osql.CreateDatabase:
		return t.createDatabase(p.DDL.Database)
	case osql.DropDatabase:
		return t.dropDatabase(p.DDL.Database)
	case osql.DropIndex:
		return t.dropIndex(p.DDL.Name)
	}
	if p.Verb == osql.CreateTable {
		columns, err := p.DDL.Sized(st.Literals)
		if err != nil {
			return err
		}
		return t.createTable(p.DDL.Database, p.DDL.Name, p.DDL.Virtual, columns)
	}
	tab := t.schema.of(p.Table)
	switch {
	case tab == nil:
		return broken("planning a statement", fmt.Errorf("the table %s has changed", p.Table))
	case tab.system:
		return mainstem.Refusef(mainstem.KindDenied, "alert", "the table %s is the server's and cannot be changed", tab)
	}
	switch p.Verb {
	case osql.CreateIndex:
		return t.createIndex(tab, p.DDL.Name, p.DDL.Columns[0].Name)
	case osql.AlterTable:
		columns, err := p.DDL.Sized(st.Literals)
		if err != nil {
			return err
		}
		return t.alterTable(tab, columns, p.DDL.Drop)
	case osql.DropTable:
		return t.dropTable(tab)
	}
	return broken("planning a statement", fmt.Errorf("the verb %d has no meaning", p.Verb))
}

func (t *tx) createDatabase(name string) error {
	if _, ok := t.schema.databases[name]; ok {
		return mainstem.Refusef(mainstem.KindExists, "alert", "there is a database %s already", name)
	}
	return t.describe(keyDatabase+name, struct{}{}, 0)
}

func (t *tx) dropDatabase(name string) error {
	version, ok := t.schema.databases[name]
	switch {
	case !ok:
		return mainstem.Refusef(mainstem.KindNotFound, "alert", "there is no database %s", name)
	case slices.Contains(standardDatabases, name) || name == "catalog":
		return mainstem.Refusef(mainstem.KindDenied, "alert", "the database %s is the server's and cannot be dropped", name)
	}
	for _, tab := range t.schema.tables {
		if tab.Database == name {
			return mainstem.Refusef(mainstem.KindInvalid, "alert", "the database %s has tables, such as %s: drop them first", name, tab)
		}
	}
	return t.describe(keyDatabase+name, nil, version)
}

// ids returns n IDs that nothing had before.
func (t *tx) ids(n int) (uint64, error) {
	rec, err := t.s.log.Get(t.s.ctx, CatalogSpace, []byte(keyNext))
	if err != nil {
		return 0, err
	}
	var r nextRecord
	if err := json.Unmarshal(rec.Value, &r); err != nil {
		return 0, mainstem.Errorf(mainstem.KindCorrupt, "alert", "%w", err).At(CatalogSpace, rec.Key)
	}
	return r.Next, t.describe(keyNext, nextRecord{r.Next + uint64(n)}, rec.Version)
}

func (t *tx) createTable(database, name string, virtual bool, columns []Column) error {
	switch {
	case t.schema.tables[database+"."+name] != nil:
		return mainstem.Refusef(mainstem.KindExists, "alert", "there is a table %s.%s already", database, name)
	case t.schema.databases[database] == 0:
		return mainstem.Refusef(mainstem.KindNotFound, "alert", "there is no database %s", database)
	case database == "catalog":
		return mainstem.Refusef(mainstem.KindDenied, "alert", "the database catalog is the server's")
	case len(t.schema.tables) >= MaxTables:
		return mainstem.Refusef(mainstem.KindInvalid, "alert", "there are %d tables: that is the limit", len(t.schema.tables))
	}
	next, err := t.ids(len(columns) + 1)
	if err != nil {
		return err
	}
	r := &tableRecord{Format: formatNumbered, ID: next, Database: database, Name: name, Virtual: virtual, Columns: slices.Clone(columns)}
	if virtual {
		r.Format = formatNamed
	}
	for i := range r.Columns {
		next++
		r.Columns[i].ID, r.Last = next, next
	}
	if err := r.check(); err != nil {
		return mainstem.Refusef(mainstem.KindInvalid, "alert", "%w", err)
	}
	if r.Begins, err = t.s.log.Head(t.s.ctx); err != nil {
		return err
	}
	tab := newTable(r, 0)
	// The database is written anew: so this and a DROP DATABASE of another server conflict.
	if err := t.describe(keyDatabase+database, struct{}{}, t.schema.databases[database]); err != nil {
		return err
	}
	if err := t.describe(keyTable+tab.String(), r, 0); err != nil || virtual {
		return err
	}
	t.ops[len(t.ops)-1].make = tab.space
	t.after = append(t.after, func() { t.s.dropLeftovers(tab) })
	return nil
}

// dropLeftovers removes the rows of tables of the same name that were dropped by a server which
// then failed. tab is in the catalog: each table of its name with a smaller ID was dropped before.
func (s *Server) dropLeftovers(tab *table) {
	for info, err := range s.log.Spaces(s.quiet, SpacePrefix+tab.String()) {
		if err != nil {
			s.o.Logger.Error("alert: the rows of earlier tables were not looked for", "table", tab.String(), "error", err)
			return
		}
		if name, id, ok := parseSpace(info.Name); ok && name == tab.String() && id < tab.ID {
			s.dropRows(tab, info.Name)
		}
	}
}

// dropRows removes the rows of a table that was dropped, in the space called name.
func (s *Server) dropRows(tab *table, name string) {
	err := s.log.DropSpace(s.quiet, name)
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		s.o.Logger.Error("alert: the rows of a dropped table were not removed", "table", tab.String(), "space", name, "error", err)
	}
}

// alter writes the new description of a table.
func (t *tx) alter(old *table, r *tableRecord) error {
	if err := r.check(); err != nil {
		return mainstem.Refusef(mainstem.KindInvalid, "alert", "%w", err)
	}
	return t.describe(keyTable+old.String(), r, old.version)
}

func (t *tx) alterTable(old *table, add []Column, drop []string) error {
	r := old.record()
	for _, name := range drop {
		i := slices.IndexFunc(r.Columns, func(c Column) bool { return c.Name == name })
		if i < 0 {
			return mainstem.Refusef(mainstem.KindInvalid, "alert", "the column %s is dropped twice", name)
		}
		id := r.Columns[i].ID
		r.Columns = slices.Delete(r.Columns, i, i+1)
		r.Indexes = slices.DeleteFunc(r.Indexes, func(x index) bool { return slices.Contains(x.Columns, id) })
	}
	if len(add) > 0 {
		next, err := t.ids(len(add))
		if err != nil {
			return err
		}
		for i, c := range add {
			if slices.ContainsFunc(r.Columns, func(o Column) bool { return o.Name == c.Name }) {
				return mainstem.Refusef(mainstem.KindExists, "alert", "%s has a column %s already", old, c.Name)
			}
			c.ID = next + uint64(i)
			r.Last = c.ID
			r.Columns = append(r.Columns, c)
		}
	}
	return t.alter(old, r)
}

func (t *tx) dropTable(tab *table) error {
	if slices.Contains(standardDatabases, tab.Database) && slices.ContainsFunc(standardTables(), func(d *definition) bool { return d.name == tab.String() }) {
		return mainstem.Refusef(mainstem.KindDenied, "alert", "the table %s is the server's and cannot be dropped", tab)
	}
	if err := t.describe(keyTable+tab.String(), nil, tab.version); err != nil || tab.virtual {
		return err
	}
	t.after = append(t.after, func() { t.s.dropRows(tab, tab.space) })
	return nil
}

func (t *tx) createIndex(old *table, name, column string) error {
	for _, tab := range t.schema.tables {
		if slices.ContainsFunc(tab.indexes, func(x index) bool { return x.Name == name }) {
			return mainstem.Refusef(mainstem.KindExists, "alert", "there is an index %s already, on %s", name, tab)
		}
	}
	r := old.record()
	r.Indexes = append(r.Indexes, index{Name: name, Columns: []uint64{old.Columns[old.Column(column)].ID}})
	return t.alter(old, r)
}

func (t *tx) dropIndex(name string) error {
	for _, tab := range t.schema.tables {
		r := tab.record()
		r.Indexes = slices.DeleteFunc(r.Indexes, func(x index) bool { return x.Name == name })
		if len(r.Indexes) < len(tab.indexes) {
			return t.alter(tab, r)
		}
	}
	return mainstem.Refusef(mainstem.KindNotFound, "alert", "there is no index %s", name)
}

// hasIndex reports whether the table has an index of just these columns.
func (t *table) hasIndex(columns []uint64) bool {
	return slices.ContainsFunc(t.indexes, func(x index) bool { return slices.Equal(x.Columns, columns) })
}

// service is SVC UPDATE: it notes the state that a service reported.
func (ss *Session) service(ctx context.Context, name string, state int64) (Result, error) {
	const good, marginal, bad, unknown = 0, 1, 2, 3
	if state < good || state > unknown {
		return Result{}, mainstem.Refusef(mainstem.KindInvalid, "alert", "the state of a service is %d: want 0 (good), 1 (marginal), 2 (bad) or 3 (unknown)", state)
	}
	now := ss.s.now()
	columns := []string{"Name", "CurrentState", "LastReportAt"}
	row := []any{name, state, now}
	if at := map[int64]string{good: "LastGoodAt", marginal: "LastMarginalAt", bad: "LastBadAt"}[state]; at != "" {
		columns, row = append(columns, at), append(row, now)
	}
	if _, err := ss.Together(ctx, "update service.status set StateChange = ? where Name = ? and CurrentState <> ?", now, name, state); err != nil {
		return Result{}, err
	}
	return ss.InsertRows(ctx, "service.status", columns, [][]any{row}, columns[1:]...)
}
