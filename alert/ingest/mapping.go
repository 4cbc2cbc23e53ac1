package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// Source is where events come from: it decides which part of a mapping file holds.
type Source string

// The sources.
const (
	JSONLines    Source = "jsonl"
	CSV          Source = "csv"
	Syslog       Source = "syslog"
	Alertmanager Source = "alertmanager" // and Prometheus itself
)

// Sources are all sources.
var Sources = []Source{JSONLines, CSV, Syslog, Alertmanager}

// What a mapping does with fields that it names nowhere, besides the name of a text
// column that takes them as name="value" pairs.
const (
	unmappedIgnore = "ignore"
	unmappedError  = "error"
)

// Mapping says what becomes of the events of a source: rows of a table. It is
// read-only and may be used from many goroutines.
type Mapping struct {
	source   Source
	table    string
	columns  []alert.Column // that rows have, in this order
	names    []string       // theirs
	rules    []*rule        // of columns, by their index; nil: by name, or unmapped
	order    []int          // columns, those before that others refer to
	updating []string
	drop     [][]condition
	extract  []extraction
	byName   map[string]int // columns that fields fill by their names, in lower case
	unmapped string
	rest     int                 // the column that takes what is left, or -1
	used     map[string]struct{} // fields that the rules name, in lower case
	stamped  []int               // columns that @received or @sequence are part of, those before that others refer to

	columnsOf func(table string) []alert.Column // that a table has now
}

// Source returns what the mapping is for.
func (m *Mapping) Source() Source { return m.source }

// Table returns the table that rows are for, "database.table".
func (m *Mapping) Table() string { return m.table }

// Columns returns the names of the columns that a row has, in order. Do not change
// the slice.
func (m *Mapping) Columns() []string { return m.names }

// Updating returns the columns that take new values when an alert comes again. Do not
// change the slice.
func (m *Mapping) Updating() []string { return m.updating }

// Row returns the row that an event becomes, one string, int64 or float64 for each
// column; ok is false for an event that a rule drops. An error says what of the event
// does not fit. It may add fields to the event.
func (m *Mapping) Row(e *Event) (row []any, ok bool, err error) {
	d, err := m.draft(e)
	if d == nil {
		return nil, false, err
	}
	return d.row, true, nil
}

// draft is a row with what it was made of.
type draft struct {
	rowScope
	row []any
}

// draft makes an event a row; nil if a rule drops it, or with an error.
func (m *Mapping) draft(e *Event) (*draft, error) {
	d := &draft{rowScope{m: m, e: e, texts: make([]string, len(m.columns))}, make([]any, len(m.columns))}
	r := &d.rowScope
	for i := range m.extract {
		m.extract[i].apply(e, r)
	}
	if err := m.fillByName(r); err != nil {
		return nil, err
	}
	var err error
	for _, i := range m.order {
		if m.rules[i] == nil {
			continue
		}
		if r.texts[i], err = m.rules[i].text(r); err != nil {
			return nil, err
		}
	}
	for _, all := range m.drop {
		if !slices.ContainsFunc(all, func(c condition) bool { return !c.holds(r) }) {
			return nil, nil
		}
	}
	if err := m.keepRest(r); err != nil {
		return nil, err
	}
	for i := range m.columns {
		if d.row[i], err = m.typed(i, r.texts[i]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// stamp fills the columns that @received or @sequence are part of anew. A column that cannot take
// the new values keeps what it has.
func (d *draft) stamp(received, sequence int64) {
	d.e.Received, d.e.Sequence = received, sequence
	for _, i := range d.m.stamped {
		text, err := d.m.rules[i].text(&d.rowScope)
		if err != nil {
			continue
		}
		if v, err := d.m.typed(i, text); err == nil {
			d.texts[i], d.row[i] = text, v
		}
	}
}

// typed returns a text as a value of the i-th column.
func (m *Mapping) typed(i int, text string) (any, error) {
	if m.rules[i] != nil {
		return m.rules[i].typed(text)
	}
	bare := rule{column: m.columns[i]}
	return bare.typed(text)
}

// fillByName fills columns without a rule from fields of the same name.
func (m *Mapping) fillByName(r *rowScope) error {
	if len(m.byName) == 0 {
		return nil
	}
	for name, v := range r.e.All() {
		i, ok := m.byName[strings.ToLower(name)]
		if !ok {
			continue
		}
		if usual := usualTables[m.columns[i].Name]; usual != "" && !isNumber(v) {
			if word, ok := builtinTables[usual][strings.ToLower(strings.TrimSpace(v))]; ok {
				v = word
			}
		}
		r.texts[i] = v
	}
	return nil
}

// keepRest does what the mapping says with fields that no rule names.
func (m *Mapping) keepRest(r *rowScope) error {
	if m.unmapped == unmappedIgnore {
		return nil
	}
	var pairs strings.Builder
	if m.rest >= 0 {
		pairs.WriteString(r.texts[m.rest])
	}
	for name, v := range r.e.All() {
		lower := strings.ToLower(name)
		if _, ok := m.used[lower]; ok {
			continue
		}
		if _, ok := m.byName[lower]; ok {
			continue
		}
		if m.rest < 0 {
			return fmt.Errorf("the field %.60q is not mapped, and unmapped: error", name)
		}
		if v != "" && pairs.Len() <= maxPairs {
			addPair(&pairs, name, v)
		}
	}
	if m.rest >= 0 {
		r.texts[m.rest] = cutPairs(pairs.String(), m.columns[m.rest].Size)
	}
	return nil
}

// maxPairs bounds the bytes of pairs that are collected for one row.
const maxPairs = 1 << 16

// addPair appends name="value", as the functions nvp_get and nvp_set have it.
func addPair(b *strings.Builder, name, value string) {
	if b.Len() > 0 && !strings.HasSuffix(b.String(), ";") {
		b.WriteByte(';')
	}
	b.WriteString(strings.Map(func(r rune) rune {
		if r == '=' || r == ';' || r == '"' || r <= ' ' {
			return '_'
		}
		return r
	}, name))
	b.WriteString(`="`)
	b.WriteString(strings.ReplaceAll(value, `"`, `""`))
	b.WriteByte('"')
}

// cutPairs cuts pairs to n bytes, between two of them if it can be.
func cutPairs(s string, n int) string {
	if n <= 0 || len(s) <= n {
		return s
	}
	if i := strings.LastIndex(s[:n], `";`); i > 0 {
		return s[:i+1]
	}
	return cutText(s, n)
}

// rowScope is the fields of an event, and the columns that they have become so far.
type rowScope struct {
	m     *Mapping
	e     *Event
	texts []string
}

func (r *rowScope) field(name string) string {
	v, _ := r.e.Get(name)
	return v
}

func (r *rowScope) column(name string) string {
	if i := slices.Index(r.m.names, name); i >= 0 {
		return r.texts[i]
	}
	return ""
}

// sorted puts the columns in an order in which each comes after those that its rule
// refers to.
func (m *Mapping) sorted() error {
	const busy, done = 1, 2
	state := make([]int, len(m.columns))
	var visit func(i int) error
	visit = func(i int) error {
		switch state[i] {
		case done:
			return nil
		case busy:
			return fmt.Errorf("the columns refer to each other in a circle, by way of %s", m.names[i])
		}
		state[i] = busy
		var errs []error
		if r := m.rules[i]; r != nil {
			r.refers(nil, func(name string) {
				to := slices.Index(m.names, name)
				if to < 0 {
					errs = append(errs, fmt.Errorf("column %s: ${=%s} is no column that the mapping fills", m.names[i], name))
					return
				}
				errs = append(errs, visit(to))
			})
		}
		state[i] = done
		m.order = append(m.order, i)
		return errors.Join(errs...)
	}
	for i := range m.columns {
		if err := visit(i); err != nil {
			return err
		}
	}
	return nil
}

// refers calls field and column for what the rule's templates name.
func (r *rule) refers(field, column func(string)) {
	if field == nil {
		field = func(string) {}
	}
	r.value.names(field, column)
	r.fallback.names(field, column)
}

// numbered reports whether the server gives the values of a column.
func numbered(c *alert.Column) bool { return c.Type == osql.Incr }
