package binary

import "reflect"

// shape says where in an any a value of some type lies, and which program is for it.
type shape struct {
	number uintptr // the type, as typeNumber gives it
	access access
	prog   *program // of the type, or of what it points to
	reg    *registration
}

type access byte

const (
	atPointer access = iota // the any holds a pointer, and the program is for what it points to
	atData                  // the any holds the address of the value
	byCopy                  // the value has no address, or its methods could change it
)

// shapes is how many types a registry finds without looking into a map.
const shapes = 64

func hash(number uintptr) uintptr { return (number>>5 ^ number>>11) % shapes }

// shapeOf returns the shape of the type of v, which is not nil.
func (r *Registry) shapeOf(v any) (*shape, error) {
	n := typeNumber(v)
	slot := &r.recent[hash(n)]
	if s := slot.Load(); s != nil && s.number == n {
		return s, nil
	}
	t := reflect.TypeOf(v)
	s := &shape{number: n, access: atPointer}
	var err error
	if t.Kind() == reflect.Pointer {
		s.prog, err = r.program(t.Elem())
	} else {
		s.prog, err = r.program(t)
		s.access = accessTo(t, s.prog)
	}
	if err != nil {
		return nil, err
	}
	slot.Store(s)
	return s, nil
}

// accessTo returns how to get at the value of an any that holds a t.
func accessTo(t reflect.Type, pr *program) access {
	if pointerLike(t) || pr.traits&hasMethods != 0 {
		return byCopy
	}
	return atData
}

// pointerLike reports whether t may be nothing but a pointer. Such a value is the
// second word of an any itself; which types are is up to the compiler, so this is
// true for all that could be.
func pointerLike(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Map, reflect.Pointer:
		return true
	case reflect.Struct, reflect.Array:
		return t.Size() == reflect.TypeFor[uintptr]().Size()
	}
	return false
}
