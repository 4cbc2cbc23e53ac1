package binary

import "reflect"

// container reads a list or map of any kinds into one of the program's type.
func (d *decoder) container(pr *program, p pointer) error {
	if err := d.enter(); err != nil {
		return err
	}
	kinds, n, err := d.containerHeader()
	if err != nil {
		return err
	}
	if isMap := kinds < noKey; isMap != (pr.key != nil) {
		what := "a list"
		if isMap {
			what = "a map"
		}
		return mismatch("it holds %s, want a %s", what, pr.typ)
	}
	switch {
	case pr.op == opStringMap && kinds == pr.kinds:
		err = d.stringMap(pr, at[map[string]string](p), n)
	case pr.key != nil:
		err = d.mapping(pr, p, kinds, n)
	case pr.op == opArray:
		if n != pr.length {
			return mismatch("it holds a list of %d, want a %s", n, pr.typ)
		}
		err = d.elements(pr, p, kinds, n)
	default:
		if err = d.resize(pr, p, n); err == nil {
			err = d.elements(pr, header(p).data, kinds, n)
		}
	}
	d.depth++
	return err
}

// resize gives the slice at p n elements, new ones only if it lacks the capacity.
func (d *decoder) resize(pr *program, p pointer, n int) error {
	h := header(p)
	if h.data != nil && h.cap >= n {
		before := h.len
		h.len = n
		if pr.elem.traits&hasUnencoded != 0 { // what was cut off earlier must not come back
			for i := before; i < n; i++ {
				valueAt(pr.elem.typ, offset(h.data, uintptr(i)*pr.elem.size)).SetZero()
			}
		}
		return nil
	}
	if err := d.charge(n, pr.elem.size); err != nil {
		return err
	}
	*h = sliceHeader{}
	switch {
	case n == 0:
		h.data = pointer(&nothing)
	case pr.op == opStrings:
		*at[[]string](p) = make([]string, n)
	default: // not reflect.MakeSlice, which allocates the header too
		valueAt(pr.typ, p).Grow(n)
		h.len = n
	}
	return nil
}

// nothing is where empty slices that are not nil point to.
var nothing struct{}

func (d *decoder) elements(pr *program, p pointer, kinds byte, n int) error {
	elem := pr.elem
	plain := kinds == pr.kinds && !elem.nilable
	for i := range n {
		q := offset(p, uintptr(i)*elem.size)
		var err error
		switch {
		case plain && elem.op == opString:
			err = d.text(at[string](q))
		case plain && elem.op == opStruct:
			err = d.structure(elem, q)
		case plain:
			err = d.exact(elem, q)
		default:
			err = d.element(elem, q, kinds)
		}
		if err != nil {
			return inElement(i, err)
		}
	}
	return nil
}

// element reads a value of a container, and the byte before it that tells nil apart.
func (d *decoder) element(pr *program, p pointer, kinds byte) error {
	if kinds&flagPresent != 0 {
		present, err := d.present()
		switch {
		case err != nil:
			return err
		case !present && !pr.nilable:
			return mismatch("nil has no place in a %s", pr.typ)
		case !present:
			pr.zero(p)
			return nil
		}
	}
	return d.value(pr, p, kind(kinds&kindMask))
}

// What a map costs: its header, and slots for keys and elements in groups of
// eight, which are down to three sevenths full after the map has grown. Keys and
// elements of more than maxInSlot bytes lie outside of the slots.
const (
	mapHeader  = 96
	groupSlots = 8
	maxInSlot  = 128
)

// setCosts says what an entry of a map costs, in its slot and outside.
func (pr *program) setCosts() {
	const pointerSize = 8
	size, align := uintptr(0), uintptr(1)
	for _, part := range []reflect.Type{pr.typ.Key(), pr.typ.Elem()} {
		n, a := part.Size(), uintptr(part.Align())
		if n > maxInSlot {
			pr.outside += n + n/4 + 16
			n, a = pointerSize, pointerSize
		}
		size, align = roundUp(size, a)+n, max(align, a)
	}
	size = roundUp(size, align)
	pr.slot = size + size/8 + 2 // the allocator's rounding, and control bytes
}

func roundUp(n, to uintptr) uintptr { return (n + to - 1) / to * to }

func (d *decoder) chargeMap(pr *program, n int) error {
	slots := 0
	if n > 0 {
		slots = max(groupSlots, 3*n)
	}
	if err := d.charge(slots, pr.slot); err != nil {
		return err
	}
	d.window.budget -= mapHeader
	if d.window.budget < 0 {
		return errBudget
	}
	return d.charge(n, pr.outside)
}

func (d *decoder) stringMap(pr *program, to *map[string]string, n int) error {
	if err := d.chargeMap(pr, n); err != nil {
		return err
	}
	m := *to
	if m == nil {
		m = make(map[string]string, n)
		*to = m
	} else {
		clear(m)
	}
	for i := range n {
		var k, v string
		err := d.text(&k)
		if err == nil {
			err = d.text(&v)
		}
		if err != nil {
			return inElement(i, err)
		}
		m[k] = v
	}
	if len(m) != n {
		return errSameKey
	}
	return nil
}

var errSameKey = malformed("a map has the same key twice")

func (d *decoder) mapping(pr *program, p pointer, kinds byte, n int) error {
	if err := d.chargeMap(pr, n); err != nil {
		return err
	}
	var m reflect.Value
	if to := at[pointer](p); *to == nil {
		m = reflect.MakeMapWithSize(pr.typ, n)
		*to = m.UnsafePointer()
	} else {
		m = valueAt(pr.typ, p)
		m.Clear()
	}
	if n == 0 {
		return nil
	}
	err := d.insert(pr, p, kinds, n)
	if err == nil && m.Len() != n {
		err = errSameKey
	}
	return err
}

// insert reads entries into variables, and copies them into the map at p.
func (d *decoder) insert(pr *program, p pointer, kinds byte, n int) error {
	en := pr.takeEntry(p)
	for i := range n {
		err := d.value(pr.key, en.keyAt, kind(kinds>>4))
		if err == nil {
			err = d.element(pr.elem, en.at, kinds)
		}
		if err != nil {
			return inElement(i, err) // the entry is not worth keeping
		}
		en.m.SetMapIndex(en.key, en.elem)
		if pr.key.traits&(hasReferences|hasUnencoded) != 0 {
			pr.key.clear(en.keyAt)
		}
		if pr.elem.traits&(hasReferences|hasUnencoded) != 0 {
			pr.elem.clear(en.at)
		}
	}
	pr.putFilled(en)
	return nil
}
