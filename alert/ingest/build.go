package ingest

import (
	"maps"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem/alert"
)

// build makes a definition a mapping; nil if the definition was not understood.
func (p *mappingParser) build(s Source, d *definition) *Mapping {
	if d.schema == nil {
		return nil
	}
	m := &Mapping{source: s, table: d.table, columnsOf: p.columnsOf, drop: d.drop, extract: d.extract, unmapped: d.unmapped, rest: -1}
	for _, c := range d.schema {
		if numbered(&c) || d.rules[c.Name] == nil && !d.byName && c.Name != d.unmapped {
			continue
		}
		m.columns = append(m.columns, c)
		m.names = append(m.names, c.Name)
		m.rules = append(m.rules, d.rules[c.Name])
	}
	for i := range d.schema {
		if c := &d.schema[i]; c.PrimaryKey && !slices.Contains(m.names, c.Name) {
			p.fail(d.node, "%s: nothing fills the column %s, which is the primary key of %s", s, c.Name, d.table)
		}
	}
	for _, name := range d.updating {
		if slices.Contains(m.names, name) {
			m.updating = append(m.updating, name)
		}
	}
	if d.unmapped != unmappedIgnore {
		m.rest = slices.Index(m.names, d.unmapped) // -1: an error
		if m.rest < 0 && d.unmapped != unmappedError {
			m.unmapped = unmappedIgnore // somebody has dropped the column
		}
	}
	if err := m.sorted(); err != nil {
		p.fail(d.node, "%s: %w", s, err)
		return nil
	}
	m.index(d)
	return m
}

// index notes which fields the mapping uses, and where the stamps of an event are.
func (m *Mapping) index(d *definition) {
	m.used = map[string]struct{}{}
	use := func(name string) { m.used[strings.ToLower(name)] = struct{}{} }
	none := func(string) {}
	for r := range maps.Values(d.rules) {
		r.refers(use, none)
	}
	for _, i := range m.order {
		if m.rules[i] == nil || i == m.rest {
			continue
		}
		stamped := false
		m.rules[i].refers(func(name string) { stamped = stamped || name == "@received" || name == "@sequence" },
			func(name string) { stamped = stamped || slices.Contains(m.stamped, slices.Index(m.names, name)) })
		if stamped {
			m.stamped = append(m.stamped, i)
		}
	}
	for i := range m.extract {
		m.extract[i].value.names(use, none)
	}
	for _, all := range m.drop {
		for i := range all {
			all[i].value.names(use, none)
		}
	}
	if !d.byName {
		return
	}
	m.byName = map[string]int{}
	for i, c := range m.columns {
		if m.rules[i] == nil {
			m.byName[strings.ToLower(c.Name)] = i
		}
	}
	for i := range d.schema { // what an export has besides: the server gives it anew
		if c := &d.schema[i]; numbered(c) {
			use(c.Name)
		}
	}
}

// gone returns the columns of the mapping that its table has no more.
func (m *Mapping) gone() map[string]bool {
	now := m.columnsOf(m.table)
	if now == nil {
		return nil // the table is missing
	}
	gone := map[string]bool{}
	for _, name := range m.names {
		if !slices.ContainsFunc(now, func(c alert.Column) bool { return c.Name == name }) {
			gone[name] = true
		}
	}
	return gone
}

// compact leaves out the columns that no row has anything in: they would get "" or 0
// in any case, and those in gone. Columns that are updating stay.
func (m *Mapping) compact(rows [][]any, gone map[string]bool) ([]string, [][]any) {
	keep := make([]bool, len(m.columns))
	n := 0
	for i := range m.columns {
		c := &m.columns[i]
		keep[i] = !gone[c.Name] && (c.PrimaryKey || c.NoDefault || slices.Contains(m.updating, c.Name) ||
			slices.ContainsFunc(rows, func(row []any) bool { return !empty(row[i]) }))
		if keep[i] {
			n++
		}
	}
	if n == len(m.columns) {
		return m.names, rows
	}
	names := make([]string, 0, n)
	for i, name := range m.names {
		if keep[i] {
			names = append(names, name)
		}
	}
	out := make([][]any, len(rows))
	for j, row := range rows {
		out[j] = make([]any, 0, n)
		for i, v := range row {
			if keep[i] {
				out[j] = append(out[j], v)
			}
		}
	}
	return names, out
}

// empty reports whether a value is what a column holds by default.
func empty(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case int64:
		return v == 0
	case float64:
		return v == 0
	}
	return v == nil
}
