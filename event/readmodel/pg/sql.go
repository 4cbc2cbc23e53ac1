package readmodelpg

import (
	"fmt"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/uuid"
)

// quote returns a name as an SQL identifier; several names are joined by dots.
func quote(names ...string) string { return pgx.Identifier(names).Sanitize() }

// indexName returns the name of an index, such as orders_status_idx. A long one is shortened, and
// ends with a hash.
func indexName(table, suffix string, unique bool) string {
	end := "_idx"
	if unique {
		end = "_key"
	}
	name := table + "_" + suffix
	if len(name)+len(end) <= maxName {
		return name + end
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	cut := maxName - len(end) - 9
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return fmt.Sprintf("%s_%08x%s", name[:cut], h.Sum32(), end)
}

// builder builds a statement. Values are parameters of it.
type builder struct {
	strings.Builder
	args []any
}

func (b *builder) add(parts ...string) {
	for _, p := range parts {
		b.WriteString(p)
	}
}

// arg adds a parameter, and returns the expression that stands for it, cast to the type cast.
// Numbers beyond bigint, UUIDs and JSON are sent as text, since the driver has no Go type for them.
func (b *builder) arg(v any, cast string) string {
	through := ""
	switch strings.TrimSuffix(cast, "[]") {
	case "numeric", "uuid", "json", "jsonb":
		through = "::text"
		if strings.HasSuffix(cast, "[]") {
			through = "::text[]"
		}
	}
	b.args = append(b.args, native(v, cast))
	return "$" + strconv.Itoa(len(b.args)) + through + "::" + cast
}

// native returns a value in the Go type that the driver takes for a cast.
func native(v any, cast string) any {
	switch x := v.(type) {
	case uint64:
		if cast == "numeric" {
			return strconv.FormatUint(x, 10)
		}
		return int64(x)
	case int64:
		if cast == "numeric" {
			return strconv.FormatInt(x, 10)
		}
	}
	return v
}

// writeCast returns the type to which a parameter is cast that is written to the column.
func (c *column) writeCast() string {
	switch {
	case c.typ.family == famJSON:
		return c.typ.name
	case c.typ.family == famList:
		return c.typ.cast + "[]"
	}
	return c.typ.cast
}

// params adds a parameter for each value of an entry, and returns their expressions. A number that
// the column cannot hold is Invalid.
func (b *builder) params(l *layout, values []any) ([]string, error) {
	out := make([]string, len(values))
	for i, c := range l.columns {
		if u, ok := values[i].(uint64); ok && u > math.MaxInt64 && c.typ.cast != "numeric" {
			return nil, fieldError(l.typ, c.field.Name, "%d does not fit a %s", u, c.typ.name)
		}
		out[i] = b.arg(values[i], c.writeCast())
	}
	return out, nil
}

// compared returns the column for a comparison: text is compared by its bytes, whatever collation
// the column has.
func (c *column) compared() string {
	if c.typ.family == famText {
		return quote(c.name) + ` COLLATE "C"`
	}
	return quote(c.name)
}

// keyValue returns a key as a value of the key column. A text that is no such key is Invalid.
func (l *layout) keyValue(key string) (any, error) {
	var v any
	var err error
	switch l.key.typ.family {
	case famInt:
		v, err = strconv.ParseInt(key, 10, 64)
	case famUint:
		v, err = parseUint(key)
		if u, ok := v.(uint64); ok && err == nil && u > math.MaxInt64 && l.key.typ.cast != "numeric" {
			err = strconv.ErrRange
		}
	case famUUID:
		v, err = uuidText(key)
	default:
		v = key
		if key == "" || len(key) > mainstem.MaxKey || !validText(key) {
			err = refuse("want 1 to %d bytes of UTF-8 without NUL", mainstem.MaxKey)
		}
	}
	if err != nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "the key %.60q is none of a %s: %w", key, l.key.field.Type, err)
	}
	return v, nil
}

func uuidText(s string) (any, error) {
	id, err := uuid.Parse(s)
	return id.String(), err
}

// keyText returns the text of a key, given as a value of its column.
func keyText(v any) string { return fmt.Sprint(v) }

// statements builds the statements of one table. Their parameters are the values of an entry, or a
// key.
type statements struct {
	table  string // quoted
	list   string // the items of SELECT for an entry
	names  string // of all columns
	update string // "col = EXCLUDED.col, …" of those that are not the key; empty if there are none
}

func newStatements(l *layout, table string) statements {
	s := statements{table: table}
	var list, names, update []string
	for _, c := range l.columns {
		list, names = append(list, c.selected()), append(names, quote(c.name))
		if !c.key {
			update = append(update, quote(c.name)+" = EXCLUDED."+quote(c.name))
		}
	}
	s.list, s.names, s.update = strings.Join(list, ", "), strings.Join(names, ", "), strings.Join(update, ", ")
	return s
}

// insert returns an INSERT of an entry. conflict is its clause ON CONFLICT, or "".
func (s *statements) insert(l *layout, values []any, conflict string) (*builder, error) {
	b := &builder{}
	params, err := b.params(l, values)
	if err != nil {
		return nil, err
	}
	b.add("INSERT INTO ", s.table, " (", s.names, ") VALUES (", strings.Join(params, ", "), ")", conflict)
	return b, nil
}

// onConflict returns the clause by which an INSERT replaces an existing entry.
func (s *statements) onConflict(l *layout) string {
	set := s.update
	if set == "" {
		set = quote(l.key.name) + " = EXCLUDED." + quote(l.key.name)
	}
	return " ON CONFLICT (" + quote(l.key.name) + ") DO UPDATE SET " + set
}

// replace returns an UPDATE of the entry with the key of values. A condition may be added.
func (s *statements) replace(l *layout, values []any) (*builder, error) {
	b := &builder{}
	params, err := b.params(l, values)
	if err != nil {
		return nil, err
	}
	b.add("UPDATE ", s.table, " SET ")
	key := ""
	for i, c := range l.columns {
		if i > 0 {
			b.add(", ")
		}
		b.add(quote(c.name), " = ", params[i])
		if c.key {
			key = params[i]
		}
	}
	b.add(" WHERE ", quote(l.key.name), " = ", key)
	return b, nil
}

// byKey returns a statement on the entry with a key: verb is DELETE or a SELECT. A condition may be
// added.
func (s *statements) byKey(l *layout, verb string, key any) *builder {
	b := &builder{}
	b.add(verb, " FROM ", s.table, " WHERE ", quote(l.key.name), " = ", b.arg(key, l.key.typ.cast))
	return b
}
