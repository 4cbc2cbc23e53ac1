package readmodelpg

import (
	"reflect"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
)

// column is a column of a table, and the field that it holds.
type column struct {
	name     string // not quoted
	field    reflect.StructField
	typ      sqlType
	pointer  bool // the field is a pointer; NULL is nil
	null     bool // NULL means no value, to queries too: a pointer, or tagged nullable
	optional bool // the column may be NULL: null, or a list, whose nil is NULL
	key      bool // it is layout.key
}

// index is an index of a table. If it is not unique, the key follows its columns.
type index struct {
	name    string
	unique  bool
	columns []*column // in the order of the fields
}

// layout is the definition of a table by a struct.
type layout struct {
	typ     reflect.Type // the struct
	columns []*column
	key     *column // one of columns
	indexes []*index
}

// maxName is the number of bytes of a name that PostgreSQL keeps.
const maxName = 63

// checkName returns an Invalid error if name is empty, has a NUL, or is longer than PostgreSQL
// keeps. what is the kind of its object.
func checkName(what, name string) error {
	if name == "" || len(name) > maxName || strings.ContainsRune(name, 0) {
		return mainstem.Refusef(mainstem.KindInvalid, op, "%s %.80q: want 1 to %d bytes without NUL", what, name, maxName)
	}
	return nil
}

// newLayout returns the layout of the struct t. A wrong tag or field type is Invalid.
func newLayout(t reflect.Type, table string) (*layout, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, "table %s: %s is not a struct", table, t)
	}
	l := &layout{typ: t}
	groups := make(map[string]*index)
	var closed [][]int // the indexes of embedded structs that are left out, or are one column: their fields are none
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get("sql")
		if slices.ContainsFunc(closed, func(index []int) bool { return len(f.Index) > len(index) && slices.Equal(f.Index[:len(index)], index) }) {
			continue
		}
		if f.Anonymous && (tag == "-" || tag != "" && f.IsExported()) {
			closed = append(closed, f.Index)
		}
		if tag == "-" || !f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct && tag == "" {
			continue
		}
		if err := l.add(f, tag, table, groups); err != nil {
			return nil, fieldError(t, f.Name, "%w", err)
		}
	}
	if l.key == nil {
		return nil, mainstem.Refusef(mainstem.KindInvalid, op, `table %s: no field of %s has the tag sql:"…,pk"`, table, t)
	}
	return l, nil
}

// fieldError returns an Invalid error about one field of t.
func fieldError(t reflect.Type, field, format string, args ...any) error {
	return mainstem.Refusef(mainstem.KindInvalid, op, "field %s of %s: "+format, append([]any{field, t}, args...)...)
}

// add adds the column of the field f. groups are the indexes with a name, so far.
func (l *layout) add(f reflect.StructField, tag, table string, groups map[string]*index) error {
	if err := reachable(l.typ, f.Index); err != nil {
		return err
	}
	name, options, _ := strings.Cut(tag, ",")
	c := &column{name: name, field: f}
	if name == "" {
		c.name = snake(f.Name)
	}
	if err := checkName("column", c.name); err != nil {
		return err
	}
	if slices.ContainsFunc(l.columns, func(o *column) bool { return o.name == c.name }) {
		return refuse("there are two columns %q", c.name)
	}
	asked, err := l.options(c, options, table, groups)
	if err != nil {
		return err
	}
	typ := f.Type
	if c.pointer = typ.Kind() == reflect.Pointer; c.pointer {
		typ = typ.Elem()
	}
	if c.typ, err = typeOf(typ, asked); err != nil {
		return err
	}
	if c.pointer && c.typ.isList() {
		return refuse("a pointer to a list: a list can be nil itself")
	}
	c.null = c.null || c.pointer
	c.optional = c.null || c.typ.isList()
	if c.key {
		if err := c.checkKey(); err != nil {
			return err
		}
		l.key = c
	}
	l.columns = append(l.columns, c)
	return nil
}

// options applies the options of a tag to c. It returns the type that the tag asks for, or "".
func (l *layout) options(c *column, options, table string, groups map[string]*index) (asked string, err error) {
	for options != "" {
		option, rest, _ := strings.Cut(options, ",")
		if strings.Count(option, "(") > strings.Count(option, ")") { // numeric(20,2)
			end, after, _ := strings.Cut(rest, ",")
			option, rest = option+","+end, after
		}
		options = rest
		word, value, _ := strings.Cut(strings.TrimSpace(option), "=")
		switch {
		case word == "pk" && value == "":
			if l.key != nil {
				return "", refuse("there is a second key: one field is the key of an entry")
			}
			c.key = true
		case word == "nullable" && value == "":
			c.null = true
		case word == "type" && value != "":
			asked = value
		case word == "index" || word == "unique":
			if err := l.index(c, table, word == "unique", value, groups); err != nil {
				return "", err
			}
		default:
			return "", refuse("the tag has %q: want pk, index, unique, nullable or type=…, or index=NAME, unique=NAME", option)
		}
	}
	return asked, nil
}

// index adds c to the index called group, or makes an index of c alone if group is "".
func (l *layout) index(c *column, table string, unique bool, group string, groups map[string]*index) error {
	x := groups[group]
	if group == "" || x == nil {
		x = &index{unique: unique}
		suffix := group
		if group == "" {
			suffix = c.name
		} else {
			groups[group] = x
		}
		x.name = indexName(table, suffix, unique)
		l.indexes = append(l.indexes, x)
	}
	if x.unique != unique {
		return refuse("index %q is unique for one field and not for another", group)
	}
	x.columns = append(x.columns, c)
	return nil
}

// checkKey returns an error unless the column can be a key.
func (c *column) checkKey() error {
	switch {
	case c.null:
		return refuse("the key cannot be nullable")
	case c.typ.family == famInt, c.typ.family == famUint, c.typ.family == famText, c.typ.family == famUUID:
		return nil
	}
	return refuse("a %s cannot be a key: want a text, a number without fraction or a UUID", c.field.Type)
}

// reachable returns an error if the path to a field leads through a pointer.
func reachable(t reflect.Type, index []int) error {
	for _, i := range index[:len(index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			return refuse("it is in a struct that is embedded by a pointer: embed the struct")
		}
	}
	return nil
}

// column returns the column of the field that a query names by a path; nil if there is none.
func (l *layout) column(path string) *column {
	t, at := l.typ, []int(nil)
	for _, name := range strings.Split(path, ".") {
		if t.Kind() != reflect.Struct {
			return nil
		}
		f, ok := t.FieldByName(name)
		if !ok {
			return nil
		}
		at, t = append(at, f.Index...), f.Type
	}
	for _, c := range l.columns {
		if slices.Equal(c.field.Index, at) {
			return c
		}
	}
	return nil
}

// snake returns the name of the column for a Go name: "order_id" for "OrderID".
func snake(name string) string {
	var out strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if upper(r) && i > 0 && (!upper(runes[i-1]) || i+1 < len(runes) && !upper(runes[i+1]) && runes[i+1] != '_') && runes[i-1] != '_' {
			out.WriteByte('_')
		}
		out.WriteString(strings.ToLower(string(r)))
	}
	return out.String()
}

func upper(r rune) bool { return strings.ToLower(string(r)) != string(r) }
