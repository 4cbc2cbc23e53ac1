package alert

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// insert runs an INSERT, as many rows at a time as a commit may have.
func (ss *Session) insert(ctx context.Context, st *osql.Statement, p *osql.Plan) (Result, error) {
	m := insertMode(p)
	return ss.s.parts(ctx, m, len(p.Rows), func(t *tx, from, to, bytes int) (int, Result, error) {
		return ss.insertRows(t, st, from, to, bytes)
	})
}

// parts commits an INSERT of so many rows in parts. insert inserts the rows from one to before
// another, at least one, and fewer if the transaction comes to so many bytes. It returns where
// it ended.
func (s *Server) parts(ctx context.Context, m mode, rows int, insert func(t *tx, from, to, bytes int) (int, Result, error)) (total Result, err error) {
	for from := 0; from < rows && err == nil; {
		end := from
		err = s.part(ctx, m, &total, func(t *tx) (r Result, err error) {
			end, r, err = insert(t, from, min(rows, from+s.o.BatchRows), t.bytes+s.partBytes)
			return r, err
		})
		from = end
	}
	return total, err
}

// part commits one part of an INSERT of many rows and adds what it did to total. An
// error tells how many rows the parts before it have written.
func (s *Server) part(ctx context.Context, m mode, total *Result, insert func(t *tx) (Result, error)) error {
	var r Result
	at, err := s.do(ctx, m, func(t *tx) error {
		var err error
		r, err = insert(t)
		return err
	})
	if err != nil {
		if total.Affected > 0 {
			err = partial(err, total.Affected)
		}
		return err
	}
	r.Position = at
	total.add(r)
	return nil
}

// insertMode returns what an INSERT needs: most of them only look for their key.
func insertMode(p *osql.Plan) mode {
	for _, row := range p.Rows {
		for i := range row {
			if row[i].Query != nil && strings.Contains(row[i].Query.SQL, " FROM ") {
				return reading
			}
		}
	}
	return light
}

// insertRows inserts rows of an INSERT, see [Server.parts].
func (ss *Session) insertRows(t *tx, st *osql.Statement, from, to, bytes int) (end int, total Result, err error) {
	p, tab, err := ss.target(t, st)
	if err != nil {
		return from, total, err
	}
	now := ss.s.now()
	for end = from; end < to && (end == from || t.bytes < bytes); end++ {
		row := p.Rows[end]
		given := make([]Value, len(row))
		for i := range row {
			if given[i], err = ss.compute(t, &row[i], st.Literals, now); err != nil {
				return end, total, err
			}
		}
		values, err := complete(tab, p.Into, given)
		if err != nil {
			return end, total, err
		}
		r, err := ss.put(t, tab, values, p.Update, now)
		if err != nil {
			return end, total, err
		}
		total.add(r)
	}
	return end, total, nil
}

// compute returns a value of an INSERT.
func (ss *Session) compute(t *tx, v *osql.Value, literals []osql.Literal, now time.Time) (Value, error) {
	if v.Query == nil {
		l := literals[v.Slot]
		if v.Negate {
			l.Int, l.Real = -l.Int, -l.Real
		}
		return fromLiteral(&l), nil
	}
	args, err := ss.bind(v.Query, literals, now, 0, 0)
	if err != nil {
		return Value{}, err
	}
	var out Value
	err = ss.s.mirror.writer.each(t.ctx, func(row []driver.Value) error {
		out = fromAny(row[0])
		return nil
	}, v.Query.SQL, args...)
	if err != nil {
		return out, mainstem.Refusef(mainstem.KindInvalid, "alert", "%w", err)
	}
	return out, nil
}

// complete returns a row with the values given for some columns.
func complete(tab *table, into []int, given []Value) ([]Value, error) {
	values := slices.Clone(tab.zero)
	for n, i := range into {
		if i == tab.incr {
			continue // the server gives it
		}
		v, err := fit(given[n], &tab.Columns[i])
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	for i := range tab.Columns {
		if c := &tab.Columns[i]; (c.NoDefault || c.PrimaryKey) && !slices.Contains(into, i) {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "alert", "the column %s of %s has no default: INSERT must name it", c.Name, tab)
		}
	}
	return values, nil
}

// put writes a row as INSERT does: a new one, or what the triggers make of one
// whose key is there already.
func (ss *Session) put(t *tx, tab *table, values []Value, updating []int, now time.Time) (Result, error) {
	key := keyOf(tab, values)
	old, err := t.get(tab, key, values)
	if err != nil {
		return Result{}, err
	}
	e := &RowEvent{Now: now, Server: ss.s.o.Name, Session: ss.info, New: Row{tab.header, values}}
	if old != nil {
		return ss.reinsert(t, tab, old, e, updating)
	}
	if tab.incr >= 0 {
		n, err := t.nextSerial(tab)
		if err != nil {
			return Result{}, err
		}
		values[tab.incr] = Int(n)
	}
	if _, err := t.fire(OnInsert, tab, e); err != nil || e.canceled {
		return Result{}, err
	}
	if string(encodeKey(tab, values)) != string(key.key) {
		return Result{}, mainstem.Refusef(mainstem.KindInvalid, "alert", "a trigger changed the primary key of a row of %s", tab)
	}
	k, err := t.number(tab, values)
	if err != nil {
		return Result{}, err
	}
	err = t.writeKey(tab, key, nil, &stored{k: k, values: values})
	if err != nil {
		return Result{}, err
	}
	ss.s.counts.note(tab, OnInsert)
	return Result{Affected: 1, Serial: k, KeyField: keyField(tab, values), Inserted: true}, nil
}

func (ss *Session) reinsert(t *tx, tab *table, old *stored, e *RowEvent, updating []int) (Result, error) {
	next := append([]Value(nil), old.values...)
	e.Old = Row{tab.header, next}
	ran, err := t.fire(OnReinsert, tab, e)
	if err != nil {
		return Result{}, err
	}
	if !ran && updating == nil {
		return Result{}, mainstem.Refusef(mainstem.KindExists, "alert", "%s has a row with this primary key", tab).At(tab.space, encodeKey(tab, old.values))
	}
	r := Result{Serial: old.k, KeyField: keyField(tab, old.values)}
	if e.canceled {
		return r, nil
	}
	for _, i := range updating {
		if !tab.Columns[i].PrimaryKey && i != tab.incr {
			next[i] = e.New.values[i]
		}
	}
	ss.s.counts.note(tab, OnReinsert)
	r.Affected = 1
	return r, t.replace(tab, old, next)
}

// keyField returns the name of a row that clients of the HTTP interface use.
func keyField(tab *table, values []Value) string {
	if server, ok := tab.header.index["ServerName"]; ok && tab.incr >= 0 {
		return strconv.FormatInt(values[tab.incr].n, 10) + ":" + values[server].s
	}
	parts := make([]string, len(tab.keys))
	for n, i := range tab.keys {
		parts[n] = values[i].String()
	}
	return strings.Join(parts, ":")
}

// InsertRows inserts rows without SQL: columns names what the values of each row
// are for, updating what INSERT would name after UPDATING. It works like one INSERT
// with all the rows, and is quicker for many.
func (ss *Session) InsertRows(ctx context.Context, name string, columns []string, rows [][]any, updating ...string) (Result, error) {
	if ss.info.ReadOnly {
		return Result{}, mainstem.Refusef(mainstem.KindDenied, "alert", "the session of %s only reads: INSERT is denied", ss.info.User)
	}
	given := make([][]Value, len(rows))
	for i, row := range rows {
		if len(row) != len(columns) {
			return Result{}, mainstem.Refusef(mainstem.KindInvalid, "alert", "row %d has %d values for %d columns", i+1, len(row), len(columns))
		}
		given[i] = make([]Value, len(row))
		for j, x := range row {
			var err error
			if given[i][j], err = valueOf(x); err != nil {
				return Result{}, mainstem.Refusef(mainstem.KindInvalid, "alert", "row %d, column %s: %w", i+1, columns[j], err)
			}
		}
	}
	total, err := ss.s.parts(ctx, light, len(given), func(t *tx, from, to, bytes int) (end int, total Result, err error) {
		tab, into, err := t.schema.columns(name, columns)
		if err != nil {
			return from, total, err
		}
		_, update, err := t.schema.columns(name, updating)
		if err != nil {
			return from, total, err
		}
		now := ss.s.now()
		for end = from; end < to && (end == from || t.bytes < bytes); end++ {
			values, err := complete(tab, into, given[end])
			if err != nil {
				return end, total, fmt.Errorf("row %d: %w", end+1, err)
			}
			r, err := ss.put(t, tab, values, update, now)
			if err != nil {
				return end, total, fmt.Errorf("row %d: %w", end+1, err)
			}
			total.add(r)
		}
		return end, total, nil
	})
	if err == nil {
		ss.rows.Add(total.Affected)
	}
	return total, err
}

// columns finds a table that can be written to, and columns of it.
func (sc *schema) columns(name string, columns []string) (*table, []int, error) {
	tab := sc.tables[name]
	if tab == nil {
		tab = sc.bare[name]
	}
	switch {
	case tab == nil:
		return nil, nil, mainstem.Refusef(mainstem.KindNotFound, "alert", "there is no table %s", name)
	case tab.system:
		return nil, nil, mainstem.Refusef(mainstem.KindDenied, "alert", "the table %s is the server's: it is only read", tab)
	}
	var into []int
	for _, c := range columns {
		i, ok := tab.header.index[c]
		if !ok {
			return nil, nil, mainstem.Refusef(mainstem.KindNotFound, "alert", "%s has no column %s", tab, c)
		}
		if slices.Contains(into, i) {
			return nil, nil, mainstem.Refusef(mainstem.KindInvalid, "alert", "the column %s is named twice", c)
		}
		into = append(into, i)
	}
	return tab, into, nil
}

// note counts a row of alerts.status that was written.
func (c *counters) note(tab *table, e Event) {
	if tab.Name != "status" || tab.Database != "alerts" {
		return
	}
	switch e {
	case OnInsert:
		c.inserts.Add(1)
		c.newInserts.Add(1)
	case OnReinsert:
		c.inserts.Add(1)
		c.dedups.Add(1)
	case OnUpdate:
		c.updates.Add(1)
	case OnDelete:
		c.deletes.Add(1)
	}
}

// serials gives out the serials of a table. It takes them from the log in
// blocks, so that servers on one log never give the same, and gives back at Close
// what it did not need.
type serials struct {
	next, limit int64
	version     mainstem.Version // of the record
}

// serialBlock is how many serials are taken at a time. After a crash, as many
// may be missing.
const serialBlock = 1024

// maxSerial is the largest serial: an unsigned number of 32 bits.
const maxSerial = 1<<32 - 1

func (t *tx) nextSerial(tab *table) (int64, error) {
	sr := t.s.serial[tab.ID]
	if sr == nil {
		sr = &serials{next: 1}
		t.s.serial[tab.ID] = sr
	}
	for attempt := 0; sr.next > sr.limit; attempt++ {
		err := t.s.reserve(t, tab, sr)
		if err != nil && (!errors.Is(err, mainstem.ErrConflict) || attempt > maxAttempts) {
			return 0, err
		}
	}
	if sr.next > maxSerial {
		return 0, mainstem.Refusef(mainstem.KindUnavailable, "alert", "%s has given out all serials up to %d", tab, int64(maxSerial))
	}
	sr.next++
	return sr.next - 1, nil
}

// number returns the number of a new row in the mirror.
func (t *tx) number(tab *table, values []Value) (int64, error) {
	if tab.incr >= 0 {
		return values[tab.incr].n, nil
	}
	last, ok := t.s.numbers[tab.ID]
	if !ok {
		var err error
		if last, err = t.s.mirror.last(t.ctx, tab); err != nil {
			return 0, err
		}
	}
	t.s.numbers[tab.ID] = last + 1
	return last + 1, nil
}

// last returns the highest number of a row.
func (m *mirror) last(ctx context.Context, tab *table) (int64, error) {
	last := int64(0)
	err := m.writer.each(ctx, func(row []driver.Value) error {
		last = fromSQL(row[0], osql.Integer64).n
		return nil
	}, fmt.Sprintf("SELECT max(%s) FROM %s", osql.RowID, tab.mirror()))
	if err != nil {
		return 0, broken("looking for the last row of "+tab.String(), err)
	}
	return last, nil
}

func serialKey(tab *table) []byte { return fmt.Appendf(nil, "%s%d", keySerial, tab.ID) }

// reserve takes a block of serials.
func (s *Server) reserve(t *tx, tab *table, sr *serials) error {
	var r serialRecord
	key := serialKey(tab)
	rec, err := s.log.Get(s.ctx, CatalogSpace, key)
	switch {
	case errors.Is(err, mainstem.ErrNotFound):
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(rec.Value, &r); err != nil {
			return mainstem.Errorf(mainstem.KindCorrupt, "alert", "%w", err).At(CatalogSpace, key)
		}
	}
	most, err := s.mirror.last(t.ctx, tab)
	if err != nil {
		return err
	}
	first := max(r.Limit, most) + 1
	version, err := s.keepSerial(tab, first+serialBlock-1, rec.Version)
	if err != nil {
		return err
	}
	sr.next, sr.limit, sr.version = first, first+serialBlock-1, version
	return nil
}

// keepSerial writes how far serials are given out.
func (s *Server) keepSerial(tab *table, limit int64, base mainstem.Version) (mainstem.Version, error) {
	p, err := json.Marshal(serialRecord{limit})
	if err != nil {
		return 0, broken("describing serials", err)
	}
	b, key := mainstem.NewBatch(), serialKey(tab)
	b.Durability = s.o.Durability
	if base == 0 {
		b.IfAbsent(CatalogSpace, key)
	} else {
		b.IfVersion(CatalogSpace, key, base)
	}
	b.Put(CatalogSpace, key, p)
	r, err := s.log.Commit(s.quiet, b)
	if err != nil {
		return 0, err
	}
	return r.Versions[0], nil
}

// returnSerials gives back the serials that were not needed, unless another
// server has taken some since.
func (s *Server) returnSerials() {
	for _, tab := range s.schema.Load().tables {
		sr := s.serial[tab.ID]
		if sr == nil || sr.next > sr.limit {
			continue
		}
		if _, err := s.keepSerial(tab, sr.next-1, sr.version); err != nil && !errors.Is(err, mainstem.ErrConflict) && !errors.Is(err, mainstem.ErrClosed) {
			s.o.Logger.Warn("alert: serials were not given back", "table", tab.String(), "error", err)
		}
	}
}
