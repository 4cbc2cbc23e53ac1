package readmodel

import (
	"fmt"
	"reflect"
	"strings"
)

// A query is compiled for the type of a table before it reads: the path of each field becomes a
// list of indexes for reflection, and each condition becomes a function of an entry. Every fault of
// the fields, values and order of a query is found here, as a [*FieldError].

// field is a field of the entries of a table, given by its path.
type field struct {
	index [][]int // one index for each name of the path; pointers between structs are followed
	kind  kind
	elem  kind         // of the elements; only if kind is kindList
	typ   reflect.Type // without pointers
}

// findField returns the field of t at a path of names joined by dots. If there is none, it returns
// the reason.
func findField(t reflect.Type, path string) (*field, string) {
	f := &field{typ: t}
	for _, name := range strings.Split(path, ".") {
		for f.typ.Kind() == reflect.Pointer {
			f.typ = f.typ.Elem()
		}
		if f.typ.Kind() != reflect.Struct || f.typ == timeType {
			return nil, fmt.Sprintf("%s has no fields", f.typ)
		}
		sf, ok := f.typ.FieldByName(name)
		if !ok || !sf.IsExported() {
			return nil, fmt.Sprintf("%s has no exported field %q", f.typ, name)
		}
		f.index, f.typ = append(f.index, sf.Index), sf.Type
	}
	for f.typ.Kind() == reflect.Pointer {
		f.typ = f.typ.Elem()
	}
	if f.kind = kindOf(f.typ); f.kind == kindList {
		f.elem = kindOf(f.typ.Elem())
	}
	return f, ""
}

// of returns the field of the entry v, without pointers. It returns false if the field is null: if
// it, or a struct on the path to it, is a nil pointer.
func (f *field) of(v reflect.Value) (reflect.Value, bool) {
	for _, index := range f.index {
		if v = deref(v); !v.IsValid() {
			return v, false
		}
		var err error
		if v, err = v.FieldByIndexErr(index); err != nil {
			return v, false // an embedded pointer is nil
		}
	}
	v = deref(v)
	return v, v.IsValid()
}

// deref follows pointers. It returns the zero Value for a nil pointer.
func deref(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return v
}

// value returns the field of the entry v; the zero value if it is null. The field must not be a
// list.
func (f *field) value(v reflect.Value) value {
	if v, ok := f.of(v); ok {
		return valueOf(f.kind, v)
	}
	return value{}
}

// test reports whether an entry meets a condition.
type test func(v reflect.Value) bool

// compiled is a query for one type.
type compiled struct {
	groups [][]test // an entry matches if all tests of one group hold, or if there are no groups
	orders []compiledOrder
}

type compiledOrder struct {
	*field
	descending bool
}

// compile returns q compiled for the type t, or a [*FieldError].
func compile(t reflect.Type, q *Query) (*compiled, error) {
	c := &compiled{}
	for _, group := range q.groups {
		var tests []test
		for _, cond := range group {
			f, reason := findField(t, cond.field)
			var do test
			if reason == "" {
				do, reason = compileCondition(f, &cond)
			}
			if reason != "" {
				return nil, &FieldError{Type: t.String(), Field: cond.field, Reason: reason}
			}
			tests = append(tests, do)
		}
		c.groups = append(c.groups, tests)
	}
	for _, o := range q.orders {
		f, reason := findField(t, o.field)
		if reason == "" && (f.kind == kindOther || f.kind == kindList) {
			reason = fmt.Sprintf("a %s has no order", f.typ)
		}
		if reason != "" {
			return nil, &FieldError{Type: t.String(), Field: o.field, Reason: reason}
		}
		c.orders = append(c.orders, compiledOrder{f, o.direction == Desc})
	}
	return c, nil
}

// matches reports whether the query selects v, a struct.
func (c *compiled) matches(v reflect.Value) bool {
	for _, group := range c.groups {
		all := true
		for _, do := range group {
			if all = do(v); !all {
				break
			}
		}
		if all {
			return true
		}
	}
	return len(c.groups) == 0
}

// compileCondition returns the test of a condition, or the reason why its field cannot be compared
// so.
func compileCondition(f *field, c *condition) (do test, reason string) {
	if c.op == IsNull || c.op == NotNull {
		if len(c.values) != 0 {
			return nil, fmt.Sprintf("%s takes no value, and there are %d", c.op, len(c.values))
		}
		null := c.op == IsNull
		return func(v reflect.Value) bool { _, there := f.of(v); return there != null }, ""
	}
	if c.op == Contains && f.kind == kindList {
		return compileElement(f, c)
	}
	if f.kind == kindOther || f.kind == kindList {
		return nil, fmt.Sprintf("a %s cannot be compared by %s", f.typ, c.op)
	}
	values, reason := operands(f.kind, f.typ, c)
	if reason != "" {
		return nil, reason
	}
	holds, reason := compareBy(f, c.op, values)
	if reason != "" {
		return nil, reason
	}
	return func(v reflect.Value) bool {
		x := f.value(v)
		return x.there && holds(x)
	}, ""
}

// compileElement returns the test of Contains for a list: an element equals the value.
func compileElement(f *field, c *condition) (test, string) {
	values, reason := operands(f.elem, f.typ.Elem(), c)
	if reason != "" {
		return nil, reason
	}
	return func(v reflect.Value) bool {
		list, there := f.of(v)
		if !there {
			return false
		}
		for i := range list.Len() {
			if order, ok := compare(f.elem, valueOf(f.elem, list.Index(i)), values[0]); ok && order == 0 {
				return true
			}
		}
		return false
	}, ""
}

// operands returns the values of a condition, converted to kind k, for a field of type t. A slice
// that is the only value of In or NotIn stands for its elements. The second result is the reason if
// the number of values or a value is wrong.
func operands(k kind, t reflect.Type, c *condition) ([]value, string) {
	given := c.values
	if list := reflect.ValueOf(firstOf(given)); (c.op == In || c.op == NotIn) && len(given) == 1 && list.Kind() == reflect.Slice {
		given = make([]any, list.Len())
		for i := range given {
			given[i] = list.Index(i).Interface()
		}
	}
	want := 1
	switch c.op {
	case Between:
		want = 2
	case In, NotIn:
		want = len(given)
	}
	if c.op > NotNull {
		return nil, fmt.Sprintf("%d is no comparison", c.op)
	}
	if len(given) != want {
		return nil, fmt.Sprintf("%s takes %d values, and there are %d", c.op, want, len(given))
	}
	values := make([]value, len(given))
	for i, g := range given {
		var ok bool
		if values[i], ok = convert(k, t, g); !ok {
			return nil, fmt.Sprintf("%#v is a %T, which is not exactly a %s", g, g, t)
		}
	}
	return values, ""
}

func firstOf(values []any) any {
	if len(values) == 0 {
		return nil
	}
	return values[0]
}

// compareBy returns the comparison op of a field that is not null with values of the same kind.
func compareBy(f *field, op Op, values []value) (func(value) bool, string) {
	ordered := func(x, y value, holds func(int) bool) bool {
		order, ok := compare(f.kind, x, y)
		return ok && holds(order)
	}
	one := func(holds func(int) bool) (func(value) bool, string) {
		return func(x value) bool { return ordered(x, values[0], holds) }, ""
	}
	if f.kind == kindBool && (op == Gt || op == Ge || op == Lt || op == Le || op == Between) {
		return nil, fmt.Sprintf("a %s has no order", f.typ)
	}
	if f.kind != kindText && (op == Like || op == Contains) {
		return nil, fmt.Sprintf("%s is for text, and this is a %s", op, f.typ)
	}
	equal := func(x value) bool {
		for _, y := range values {
			if ordered(x, y, func(o int) bool { return o == 0 }) {
				return true
			}
		}
		return false
	}
	switch op {
	case Eq, In:
		return equal, ""
	case Ne, NotIn:
		return func(x value) bool { return !equal(x) }, ""
	case Gt:
		return one(func(o int) bool { return o > 0 })
	case Ge:
		return one(func(o int) bool { return o >= 0 })
	case Lt:
		return one(func(o int) bool { return o < 0 })
	case Le:
		return one(func(o int) bool { return o <= 0 })
	case Between:
		return func(x value) bool {
			return ordered(x, values[0], func(o int) bool { return o >= 0 }) && ordered(x, values[1], func(o int) bool { return o <= 0 })
		}, ""
	case Like:
		pattern := []rune(values[0].s)
		return func(x value) bool { return like([]rune(x.s), pattern) }, ""
	}
	return func(x value) bool { return strings.Contains(x.s, values[0].s) }, "" // Contains
}
