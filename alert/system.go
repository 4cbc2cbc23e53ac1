package alert

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// describe returns the result of DESCRIBE.
func (ss *Session) describe(t *osql.Table) *Rows {
	h := newHeader([]Column{
		{Name: "ColumnName", Type: osql.Varchar, Size: osql.MaxName}, {Name: "Type", Type: osql.Varchar, Size: osql.MaxName},
		{Name: "Size", Type: osql.Integer, Size: 4}, {Name: "Key", Type: osql.Integer, Size: 4},
	})
	c := &cursor{m: ss.s.mirror, types: []Type{osql.Varchar, osql.Varchar, osql.Integer, osql.Integer}}
	var b block
	for i := range t.Columns {
		col := &t.Columns[i]
		b.values = append(b.values, Text(col.Name), Text(col.Type.String()), Int(int64(col.Size)), Bool(col.PrimaryKey))
	}
	c.ready = []block{b}
	return &Rows{h: h, c: c, ctx: ss.s.quiet}
}

// count returns the number of rows of a table.
func (s *Server) count(ctx context.Context, name string) (int64, error) {
	t := s.table(name)
	if t == nil {
		return 0, nil
	}
	c, err := s.mirror.open(ctx, []Type{osql.Integer64}, "SELECT count(*) FROM "+t.mirror(), nil)
	if err != nil {
		return 0, err
	}
	defer c.close()
	v, err := c.next(ctx)
	if err != nil {
		return 0, err
	}
	return v[0].n, nil
}

// fill brings the tables of the server that a plan reads up to date.
func (s *Server) fill(ctx context.Context, sc *schema, p *osql.Plan) error {
	var system []*table
	for _, r := range p.Reads {
		if t := sc.of(r); t != nil && t.system {
			system = append(system, t)
		}
	}
	if system == nil {
		return nil
	}
	var counts map[string]int64
	if slices.ContainsFunc(system, func(t *table) bool { return t.Name == "tables" }) {
		counts = map[string]int64{}
		for _, t := range sc.sorted() {
			n, err := s.count(ctx, t.String())
			if err != nil {
				return err
			}
			counts[t.String()] = n
		}
	}
	_, err := s.do(ctx, alone, func(*tx) error {
		return s.transact(undoable, func() error {
			for _, tab := range system {
				if err := s.fillTable(tab, counts); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return err
}

func (s *Server) fillTable(tab *table, counts map[string]int64) error {
	if _, err := s.mirror.writer.exec(s.quiet, "DELETE FROM "+tab.mirror()); err != nil {
		return broken("filling "+tab.String(), err)
	}
	for _, row := range s.systemRows(s.schema.Load(), tab.Name, counts) {
		values := make([]Value, len(tab.Columns))
		for i := range values {
			v, err := valueOf(row[i])
			if err == nil {
				values[i], err = fit(v, &tab.Columns[i])
			}
			if err != nil {
				return broken("filling "+tab.String(), err)
			}
		}
		if _, err := s.mirror.put(s.quiet, tab, 0, 0, values); err != nil {
			return err
		}
	}
	return nil
}

// systemRows returns the rows of a table of the database catalog.
func (s *Server) systemRows(sc *schema, name string, counts map[string]int64) [][]any {
	switch name {
	case "databases":
		return databaseRows(sc)
	case "tables":
		return tableRows(sc, counts)
	case "columns":
		return columnRows(sc)
	case "indexes":
		return indexRows(sc)
	case "triggers":
		return s.triggerRows()
	case "connections":
		return s.connectionRows()
	case "profiles":
		return s.profileRows()
	}
	return s.propertyRows()
}

func databaseRows(sc *schema) [][]any {
	var out [][]any
	for name := range sc.databases {
		n := 0
		for _, t := range sc.tables {
			if t.Database == name {
				n++
			}
		}
		out = append(out, []any{name, n, name == "catalog" || slices.Contains(standardDatabases, name)})
	}
	return out
}

func tableRows(sc *schema, counts map[string]int64) [][]any {
	var out [][]any
	for _, t := range sc.sorted() {
		storage := 0
		if t.virtual {
			storage = 1
		}
		kind := 0
		if t.system {
			kind = 1
		}
		out = append(out, []any{t.Name, t.Database, 0, len(t.indexes), t.ID, kind, storage, t.system, counts[t.String()]})
	}
	return out
}

// dataTypes are the numbers that catalog.columns has for types. Clients know 1 as a
// time, 2 and 10 as texts, and take all others for numbers.
var dataTypes = map[Type]int{
	osql.Integer: 0, osql.Time: 1, osql.Varchar: 2, osql.Incr: 3, osql.Boolean: 4, osql.Real: 5,
	osql.Unsigned: 6, osql.Integer64: 7, osql.Unsigned64: 8, osql.Char: 10,
}

func columnRows(sc *schema) [][]any {
	var out [][]any
	for _, t := range sc.sorted() {
		for i := range t.Columns {
			c := &t.Columns[i]
			out = append(out, []any{c.Name, t.Name, t.Database, i + 1, dataTypes[c.Type], c.Size, c.PrimaryKey, c.NoModify || c.PrimaryKey, c.NoDefault})
		}
	}
	return out
}

func indexRows(sc *schema) [][]any {
	var out [][]any
	for _, t := range sc.sorted() {
		for _, x := range t.indexes {
			var columns []string
			for _, id := range x.Columns {
				columns = append(columns, t.Columns[t.column[id]].Name)
			}
			name := x.Name
			if name == "" {
				name = t.Name + "_" + strings.Join(columns, "_")
			}
			out = append(out, []any{name, t.Name, t.Database, strings.Join(columns, ",")})
		}
	}
	return out
}

func (s *Server) triggerRows() [][]any {
	var out [][]any
	for _, a := range s.automations.list {
		i := a.info()
		text := ""
		if i.Err != nil {
			text = i.Err.Error()
		}
		out = append(out, []any{i.Name, i.Group, a.kind(), i.Enabled, a.Priority, i.Description, i.Runs, i.Failures, i.Rows,
			i.Last, i.Took.Seconds(), i.Total.Seconds(), text})
	}
	return out
}

func (s *Server) connectionRows() [][]any {
	var out [][]any
	for _, ss := range s.sessions.list() {
		out = append(out, []any{ss.id, ss.info.User, ss.info.Host, ss.info.App, ss.info.Description, false, ss.info.Gateway, ss.started})
	}
	return out
}

func (s *Server) profileRows() [][]any {
	var out [][]any
	for _, ss := range s.sessions.list() {
		p := &ss.profile
		p.Lock()
		out = append(out, []any{ss.id, ss.info.User, ss.info.Host, ss.info.App, p.last.Seconds(), p.least.Seconds(), p.most.Seconds(), p.took.Seconds(),
			when(p.at), p.submits})
		p.Unlock()
	}
	return out
}

func when(t time.Time) any {
	if t.IsZero() {
		return 0
	}
	return t
}

func (s *Server) propertyRows() [][]any {
	out := [][]any{{"Name", s.o.Name}}
	v, _ := s.Property("ActingPrimary")
	out = append(out, []any{"ActingPrimary", v})
	for name, v := range s.o.Properties {
		if name != "Name" && name != "ActingPrimary" {
			out = append(out, []any{name, v})
		}
	}
	return out
}

// applyCatalog applies a record of the catalog.
func (t *tx) applyCatalog(rec *mainstem.Record) error {
	key := string(rec.Key)
	switch {
	case strings.HasPrefix(key, keyTrigger):
		var value []byte
		if rec.Live() {
			value = slices.Clone(rec.Value)
		}
		return t.s.automations.restore(strings.TrimPrefix(key, keyTrigger), value, rec.Version)
	case strings.HasPrefix(key, keyDatabase):
		name := strings.TrimPrefix(key, keyDatabase)
		t.schema = t.schema.with(func(databases map[string]mainstem.Version, _ map[string]*table) {
			if rec.Live() {
				databases[name] = rec.Version
			} else {
				delete(databases, name)
			}
		})
	case strings.HasPrefix(key, keyTable):
		return t.applyTable(strings.TrimPrefix(key, keyTable), rec)
	}
	return nil
}

func (t *tx) applyTable(name string, rec *mainstem.Record) error {
	old := t.schema.tables[name]
	if old != nil && old.version >= rec.Version {
		return nil
	}
	var tab *table
	if rec.Live() {
		var err error
		if tab, err = decodeTable(slices.Clone(rec.Value), rec.Version); err != nil {
			return mainstem.Errorf(mainstem.KindCorrupt, "alert", "%w", err).At(CatalogSpace, rec.Key)
		}
	}
	if old == nil && tab == nil {
		return nil
	}
	if err := t.s.mirror.change(t.ctx, old, tab); err != nil {
		return broken("changing the mirror", err)
	}
	if tab != nil && !tab.virtual && (old == nil || old.ID != tab.ID) {
		if err := t.readTable(tab); err != nil {
			return err
		}
	}
	t.schema = t.schema.with(func(_ map[string]mainstem.Version, tables map[string]*table) {
		delete(tables, name)
		if tab != nil {
			tables[name] = tab
		}
	})
	return nil
}

// readTable reads the rows that a new table has already.
func (t *tx) readTable(tab *table) error {
	for rec, err := range t.s.log.Scan(t.s.ctx, tab.space, mainstem.Range{}) {
		if err != nil {
			if errors.Is(err, mainstem.ErrNotFound) {
				return nil // dropped since
			}
			return err
		}
		if err := t.applyRow(tab, &rec); err != nil {
			return err
		}
	}
	return nil
}
