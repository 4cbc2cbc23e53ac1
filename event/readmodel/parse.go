package readmodel

import "reflect"

// Parsed is a [Query] that was checked against the type of its entries. It is for packages that
// execute queries elsewhere than in a [Table], such as readmodel/pg.
type Parsed struct {
	Groups [][]Condition // an entry is selected if all conditions of one group hold, or if there are no groups
	Orders []Order       // entries that are equal in all of them are in the order of their keys
	Limit  int           // 0: no limit
	Offset int           // entries to leave out, counted after After
	After  *Place        // the result begins after this place; nil: at the first entry
}

// Condition is one comparison of a [Parsed] query.
type Condition struct {
	Field string
	Op    Op
	// Values are as many as Op takes. Each is an int64, uint64, float64, string, bool or time.Time,
	// according to the kind of the field, or of its elements if the field is a list. A slice that
	// was given to In or NotIn is replaced by its elements.
	Values []any
}

// Order is one field by which a [Parsed] query orders.
type Order struct {
	Field     string
	Direction Direction
}

// Place is the place of an entry in the order of a query.
type Place struct {
	Key   string
	Order []any // the values of the fields by which the query orders, as in [Condition.Values]; nil is null
}

// Parse checks a query against t, a struct or a pointer to one. Its errors are those that
// [Table.Find] returns before it reads.
func (q *Query) Parse(t reflect.Type) (*Parsed, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	c, err := compile(t, q)
	if err != nil {
		return nil, err
	}
	p := &Parsed{Limit: q.limit, Offset: q.offset}
	for _, group := range q.groups {
		var conditions []Condition
		for i := range group {
			conditions = append(conditions, parseCondition(t, &group[i]))
		}
		p.Groups = append(p.Groups, conditions)
	}
	for _, o := range q.orders {
		p.Orders = append(p.Orders, Order{o.field, o.direction})
	}
	if p.After, err = parsePlace(c, q.after); err != nil {
		return nil, err
	}
	return p, nil
}

// parseCondition returns a condition that compile has accepted.
func parseCondition(t reflect.Type, c *condition) Condition {
	out := Condition{Field: c.field, Op: c.op}
	if c.op == IsNull || c.op == NotNull {
		return out
	}
	f, _ := findField(t, c.field)
	k, typ := f.kind, f.typ
	if k == kindList {
		k, typ = f.elem, f.typ.Elem()
	}
	values, _ := operands(k, typ, c)
	for _, v := range values {
		out.Values = append(out.Values, v.any(k))
	}
	return out
}

// parsePlace returns the place of a cursor; nil for "".
func parsePlace(c *compiled, after string) (*Place, error) {
	if after == "" {
		return nil, nil
	}
	read, err := readCursor(after, len(c.orders))
	if err != nil {
		return nil, err
	}
	p := &Place{Key: string(read.Key)}
	for i, v := range read.values() {
		p.Order = append(p.Order, v.any(c.orders[i].kind))
	}
	return p, nil
}

// Cursor returns the text of a place, for [Query.After].
func (p *Place) Cursor() string {
	var order []value
	for _, v := range p.Order {
		x := value{}
		if v != nil {
			r := reflect.ValueOf(v)
			x = valueOf(kindOf(r.Type()), r)
		}
		order = append(order, x)
	}
	return writeCursor(p.Key, order)
}

// any returns a value of kind k in the type that [Condition.Values] has for it; nil for null.
func (v value) any(k kind) any {
	switch {
	case !v.there:
		return nil
	case k == kindUint:
		return v.u
	case k == kindFloat:
		return v.f
	case k == kindText:
		return v.s
	case k == kindBool:
		return v.i == 1
	case k == kindTime:
		return v.t
	}
	return v.i
}
