package binary

import (
	"fmt"
	"reflect"
	"time"
)

// builtin are the types that every registry knows.
var builtin = []struct {
	number uint32
	name   string
	zero   any
}{
	{1, "bool", false}, {2, "string", ""}, {3, "bytes", []byte(nil)},
	{4, "int", 0}, {5, "int8", int8(0)}, {6, "int16", int16(0)}, {7, "int32", int32(0)}, {8, "int64", int64(0)},
	{9, "uint", uint(0)}, {10, "uint8", uint8(0)}, {11, "uint16", uint16(0)}, {12, "uint32", uint32(0)}, {13, "uint64", uint64(0)},
	{14, "float32", float32(0)}, {15, "float64", float64(0)},
	{16, "time", time.Time{}}, {17, "duration", time.Duration(0)},
	{18, "list", []any(nil)}, {19, "map", map[string]any(nil)}, {20, "strings", []string(nil)},
	{21, "error", (*RemoteError)(nil)},
}

const errorNumber = 21

// RemoteError is what an error becomes whose type and value are not registered:
// its text, and the errors that it wraps. Registered ones among those keep their
// identity, so errors.Is and errors.As find them.
type RemoteError struct {
	Text   string  `bin:"1"`
	Causes []error `bin:"2"`
}

// Error returns the text of the original error.
func (e *RemoteError) Error() string { return e.Text }

// Unwrap returns what the original error wrapped.
func (e *RemoteError) Unwrap() []error { return e.Causes }

func remoteError(err error) *RemoteError {
	e := &RemoteError{Text: err.Error()}
	switch w := err.(type) {
	case interface{ Unwrap() error }:
		if cause := w.Unwrap(); cause != nil {
			e.Causes = []error{cause}
		}
	case interface{ Unwrap() []error }:
		e.Causes = w.Unwrap()
	}
	return e
}

// iface appends what the interface at p holds.
func (e *encoder) iface(dst []byte, pr *program, p pointer) ([]byte, error) {
	if *at[pointer](p) == nil {
		return append(dst, 0), nil
	}
	if pr.typ.NumMethod() == 0 {
		return e.dynamic(dst, *at[any](p))
	}
	return e.dynamic(dst, valueAt(pr.typ, p).Elem().Interface())
}

// dynamic appends the number or name of the type of v, and v as a message. Nil is
// an empty name.
func (e *encoder) dynamic(dst []byte, v any) ([]byte, error) {
	if e.depth--; e.depth < 0 {
		return dst, tooDeep(e.reg.opts.MaxDepth)
	}
	if v == nil {
		e.depth++
		return append(dst, 0), nil
	}
	s, v, err := e.reg.registeredShape(v)
	if err != nil {
		return dst, err
	}
	if s.reg.number != 0 {
		dst = appendUvarint(dst, uint64(s.reg.number)<<1|1)
	} else {
		dst = append(appendUvarint(dst, uint64(len(s.reg.name))<<1), s.reg.name...)
	}
	switch {
	case s.reg.sentinel != nil:
		dst = append(dst, version|byte(kindStruct), 0)
	case s.access == atData:
		dst, err = e.message(dst, s.reg.prog, dataWord(v))
	case s.access == atPointer && dataWord(v) != nil:
		dst, err = e.value(append(dst, version|byte(s.reg.prog.kind)), s.prog, dataWord(v))
	default:
		var p pointer
		if p, _, err = e.reg.copied(v); err == nil {
			dst, err = e.message(dst, s.reg.prog, p)
		}
	}
	e.depth++
	return dst, err
}

// registeredShape returns how to write v into an interface, and what to write
// instead of it: an error of no registered type becomes a RemoteError.
func (r *Registry) registeredShape(v any) (*shape, any, error) {
	n := typeNumber(v)
	slot := &r.dynamic[hash(n)]
	if s := slot.Load(); s != nil && s.number == n {
		return s, v, nil
	}
	rv := reflect.ValueOf(v)
	known := r.tables.Load()
	reg := known.registered(rv)
	if reg == nil {
		err, ok := v.(error)
		if !ok || rv.Kind() == reflect.Pointer && rv.IsNil() {
			return nil, v, fmt.Errorf("%w: %T is in an interface; give it a name with Register", ErrUnregistered, v)
		}
		v, reg = remoteError(err), known.byNumber[errorNumber]
	}
	if reg.sentinel != nil {
		return &shape{reg: reg}, v, nil
	}
	s := &shape{number: typeNumber(v), reg: reg, access: accessTo(reg.prog.typ, reg.prog), prog: reg.prog}
	if reg.prog.op == opPointer {
		s.access, s.prog = atPointer, reg.prog.elem
	}
	if !reg.prog.typ.Implements(errorType) { // of errors, each value may be registered
		slot.Store(s)
	}
	return s, v, nil
}

// iface reads what an interface holds.
func (d *decoder) iface(pr *program, p pointer) error {
	v, err := d.dynamic()
	if err != nil {
		return err
	}
	if pr.typ.NumMethod() == 0 {
		*at[any](p) = v
		return nil
	}
	to := valueAt(pr.typ, p)
	if v == nil {
		to.SetZero()
		return nil
	}
	rv := reflect.ValueOf(v)
	if !rv.Type().AssignableTo(pr.typ) {
		return mismatch("it holds a %s, which is not a %s", rv.Type(), pr.typ)
	}
	to.Set(rv)
	return nil
}

// dynamic reads what encoder.dynamic writes.
func (d *decoder) dynamic() (v any, err error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	reg, err := d.registration()
	if err == nil && reg != nil {
		if reg.sentinel != nil {
			v, err = reg.sentinel, d.skipMessage()
		} else if v, err = d.instance(reg); err != nil {
			err = inside("("+reg.name+")", err)
		}
	}
	d.depth++
	return v, err
}

// registration reads a number or a name; nil is the registration of nil.
func (d *decoder) registration() (*registration, error) {
	n, err := d.uvarint()
	if err != nil || n == 0 {
		return nil, err
	}
	known := d.reg.tables.Load()
	if n&1 == 1 {
		var reg *registration
		if n>>1 < uint64(len(known.oneByte)) {
			reg = known.oneByte[n>>1]
		} else {
			reg = known.byNumber[uint32(min(n>>1, MaxTypeNumber+1))]
		}
		if reg != nil {
			return reg, nil
		}
		return nil, fmt.Errorf("%w: no type has the number %d; every reader of such values must register it with RegisterNumber", ErrUnregistered, n>>1)
	}
	if n>>1 > uint64(len(d.src)-d.pos) {
		return nil, errShort
	}
	name, err := d.take(int(n >> 1))
	if err != nil {
		return nil, err
	}
	if reg := known.byName[string(name)]; reg != nil {
		return reg, nil
	}
	return nil, fmt.Errorf("%w: no type is named %.64q; every reader of such values must Register it", ErrUnregistered, name)
}

func (d *decoder) skipMessage() error {
	k, isNil, err := d.header()
	if err == nil && !isNil {
		err = d.skip(k)
	}
	return err
}

// instance reads a message as a new value of a registered type.
func (d *decoder) instance(reg *registration) (any, error) {
	pr := reg.prog
	k, isNil, err := d.header()
	if err != nil {
		return nil, err
	}
	if isNil && !pr.nilable {
		return nil, mismatch("nil has no place in a %s", pr.typ)
	}
	if pr.op == opPointer {
		pr = pr.elem
		if isNil {
			return reflect.Zero(reg.prog.typ).Interface(), nil
		}
	}
	if err := d.charge(1, pr.size); err != nil {
		return nil, err
	}
	to := reflect.New(pr.typ)
	if !isNil {
		if err := d.value(pr, to.UnsafePointer(), k); err != nil {
			return nil, err
		}
	}
	if reg.prog.op != opPointer && pointerLike(pr.typ) {
		return to.Elem().Interface(), nil
	}
	return anyOf(reg.word, to.UnsafePointer()), nil
}
