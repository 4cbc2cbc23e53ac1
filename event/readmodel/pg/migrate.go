package readmodelpg

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
)

// lockTables is the first number of the advisory locks under which schemas are changed. The second
// one is that of the schema; see lockOf.
const lockTables = 0x6d73_1000

// lockOf returns the second number of an advisory lock for a name. Names with the same number only
// wait for each other.
func lockOf(name string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return int32(h.Sum32())
}

// migration makes or extends a table so that it fits the layout of its struct.
type migration struct {
	db     *DB
	l      *layout
	schema string
	table  string
	tx     pgx.Tx // set by run
	unique bool   // set by run: another index than that of the key is unique
}

// run makes the table, or adds the columns and indexes that it lacks, in one transaction. An
// advisory lock lets one process at a time change a schema.
func (m *migration) run(ctx context.Context) error {
	return m.db.inTx(ctx, func(tx pgx.Tx) error {
		m.tx = tx
		// The lock comes before all reads: another process may be making the table.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, $2)", int32(lockTables), lockOf(m.schema)); err != nil {
			return err
		}
		var kind string
		err := tx.QueryRow(ctx, "SELECT c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2",
			m.schema, m.table).Scan(&kind)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			err = m.create(ctx)
		case err == nil && kind != "r" && kind != "p":
			err = m.wrong("it is not a table but something else of that name (relkind %s)", kind)
		case err == nil:
			err = m.extend(ctx)
		}
		if err != nil {
			return err
		}
		for _, x := range m.l.indexes {
			if err := m.index(ctx, x); err != nil {
				return err
			}
		}
		return tx.QueryRow(ctx, `SELECT count(*) > 1 FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND c.relname = $2 AND (i.indisunique OR i.indisexclusion)`, m.schema, m.table).Scan(&m.unique)
	})
}

// wrong returns an Invalid error about the existing table.
func (m *migration) wrong(format string, args ...any) error {
	return mainstem.Refusef(mainstem.KindInvalid, op, "table %s: "+format, append([]any{m.name()}, args...)...)
}

func (m *migration) name() string { return m.schema + "." + m.table }

// change runs statements that add a missing table, column or index (lacks). With MustExist it
// returns NotFound instead.
func (m *migration) change(ctx context.Context, lacks string, statements ...string) error {
	if m.db.opts.MustExist {
		return mainstem.Refusef(mainstem.KindNotFound, op, "table %s: there is no %s", m.name(), lacks).WithHint("run: " + strings.Join(statements, "; "))
	}
	for _, sql := range statements {
		if _, err := m.tx.Exec(ctx, sql); err != nil {
			return fmt.Errorf("make %s: %w", lacks, err)
		}
	}
	return nil
}

// makeSchema makes a schema unless it exists: then the user needs no right to make schemas.
func makeSchema(ctx context.Context, tx pgx.Tx, schema string) error {
	var there bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&there); err != nil || there {
		return err
	}
	_, err := tx.Exec(ctx, "CREATE SCHEMA "+quote(schema))
	return err
}

func (m *migration) create(ctx context.Context) error {
	if !m.db.opts.MustExist {
		if err := makeSchema(ctx, m.tx, m.schema); err != nil {
			return err
		}
	}
	var columns []string
	for _, c := range m.l.columns {
		columns = append(columns, c.definition())
	}
	columns = append(columns, "PRIMARY KEY ("+quote(m.l.key.name)+")")
	return m.change(ctx, "such table", "CREATE TABLE "+quote(m.schema, m.table)+" ("+strings.Join(columns, ", ")+")")
}

// definition returns the column as part of CREATE TABLE.
func (c *column) definition() string {
	d := quote(c.name) + " " + c.typ.name
	if c.typ.family == famText || c.typ.family == famList && c.typ.elem == famText {
		d += ` COLLATE "C"`
	}
	if !c.optional {
		d += " NOT NULL"
	}
	return d
}

// present is a column of the existing table.
type present struct {
	name, typ        string
	notNull, filled  bool // filled: it has a default or is an identity
	generatedColumns bool
}

// extend adds the columns that the table lacks, and compares the others with the layout.
func (m *migration) extend(ctx context.Context) error {
	rows, err := m.tx.Query(ctx, `SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef OR a.attidentity <> '', a.attgenerated <> ''
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped`, m.schema, m.table)
	if err != nil {
		return err
	}
	there, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (p present, err error) {
		err = r.Scan(&p.name, &p.typ, &p.notNull, &p.filled, &p.generatedColumns)
		return p, err
	})
	if err != nil {
		return err
	}
	if err := m.checkKey(ctx); err != nil {
		return err
	}
	for _, c := range m.l.columns {
		i := slices.IndexFunc(there, func(p present) bool { return p.name == c.name })
		if i >= 0 {
			err = m.compare(c, &there[i])
		} else {
			err = m.addColumn(ctx, c)
		}
		if err != nil {
			return err
		}
	}
	for _, p := range there {
		if p.notNull && !p.filled && !slices.ContainsFunc(m.l.columns, func(c *column) bool { return c.name == p.name }) {
			return m.wrong("column %q is NOT NULL, has no default, and %s has no field for it: add one, or give the column a default", p.name, m.l.typ)
		}
	}
	return nil
}

// compare returns an error unless the existing column p fits c.
func (m *migration) compare(c *column, p *present) error {
	what := fmt.Sprintf("field %s of %s", c.field.Name, m.l.typ)
	switch {
	case p.typ != c.typ.name:
		return m.wrong("column %q has the type %s, and %s takes %s: change the column, or say type=%s in the tag if the field fits that", p.name, p.typ, what, c.typ.name, p.typ)
	case p.generatedColumns:
		return m.wrong("column %q is generated, so %s cannot be written", p.name, what)
	case p.notNull && c.optional && !c.typ.isList():
		return m.wrong("column %q is NOT NULL, and %s may have no value: ALTER TABLE %s ALTER COLUMN %s DROP NOT NULL", p.name, what, quote(m.schema, m.table), quote(c.name))
	case !p.notNull && !c.optional:
		return m.wrong("column %q may be NULL, and %s cannot: make the field a pointer, say nullable in its tag, or make the column NOT NULL", p.name, what)
	}
	return nil
}

// addColumn adds a column. In existing rows it is NULL if it is optional, else zero.
func (m *migration) addColumn(ctx context.Context, c *column) error {
	table, what := "ALTER TABLE "+quote(m.schema, m.table), fmt.Sprintf("column %q", c.name)
	add := table + " ADD COLUMN " + c.definition()
	if c.optional {
		return m.change(ctx, what, add)
	}
	return m.change(ctx, what, add+" DEFAULT "+c.typ.zero(), table+" ALTER COLUMN "+quote(c.name)+" DROP DEFAULT")
}

// checkKey returns an error unless the key is the primary key or has a unique index of its own.
func (m *migration) checkKey(ctx context.Context) error {
	var unique bool
	err := m.tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
		WHERE n.nspname = $1 AND c.relname = $2 AND a.attname = $3 AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indnkeyatts = 1 AND i.indpred IS NULL)`,
		m.schema, m.table, m.l.key.name).Scan(&unique)
	if err == nil && !unique {
		err = m.wrong("column %q is not its primary key, and has no unique index of its own", m.l.key.name)
	}
	return err
}

// index makes an index, or returns an error if the existing one of that name differs.
func (m *migration) index(ctx context.Context, x *index) error {
	if err := checkName("index", x.name); err != nil {
		return err
	}
	var want []string
	for _, c := range x.columns {
		want = append(want, c.name)
	}
	var have []string
	var table string
	var unique bool
	err := m.tx.QueryRow(ctx, `SELECT t.relname, i.indisunique AND i.indisvalid AND i.indpred IS NULL,
		ARRAY(SELECT coalesce(a.attname, '') FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place)
			LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.attnum WHERE place <= i.indnkeyatts ORDER BY place)::text[]
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_index i ON i.indexrelid = c.oid JOIN pg_class t ON t.oid = i.indrelid
		WHERE n.nspname = $1 AND c.relname = $2`, m.schema, x.name).Scan(&table, &unique, &have)
	if errors.Is(err, pgx.ErrNoRows) {
		return m.change(ctx, fmt.Sprintf("index %q", x.name), m.createIndex(x))
	}
	if err != nil {
		return err
	}
	fits := len(have) >= len(want) && slices.Equal(have[:len(want)], want)
	if x.unique {
		fits = slices.Equal(have, want) // with more columns it would allow more
	}
	if table != m.table || unique != x.unique || !fits {
		return m.wrong("index %q is another one, of %s (%s), unique: %v: rename it, or give this one another name by index=NAME", x.name, table, strings.Join(have, ", "), unique)
	}
	return nil
}

// createIndex returns the statement that makes an index, in the order that queries use.
func (m *migration) createIndex(x *index) string {
	sql := "CREATE "
	if x.unique {
		sql += "UNIQUE "
	}
	var columns []string
	for _, c := range x.columns {
		columns = append(columns, c.indexed())
	}
	if !x.unique && !slices.Contains(x.columns, m.l.key) {
		columns = append(columns, m.l.key.indexed())
	}
	return sql + "INDEX " + quote(x.name) + " ON " + quote(m.schema, m.table) + " (" + strings.Join(columns, ", ") + ")"
}

func (c *column) indexed() string {
	s := c.compared()
	if c.optional {
		s += " NULLS FIRST"
	}
	return s
}
