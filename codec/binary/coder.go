package binary

import (
	"errors"
	"fmt"
	"reflect"
)

// Append appends the encoding of v, or of what v points to. On an error it
// returns dst as it was given; bytes beyond its length may have changed.
func (r *Registry) Append(dst []byte, v any) ([]byte, error) {
	if v == nil {
		return dst, encodeError(v, noEncoding("nil has no type; AppendAny writes it"))
	}
	s, err := r.shapeOf(v)
	if err != nil {
		return dst, encodeError(v, err)
	}
	p, pr := dataWord(v), s.prog
	if s.access == byCopy || s.access == atPointer && p == nil {
		if p, pr, err = r.copied(v); err != nil {
			return dst, encodeError(v, err)
		}
	}
	return pr.encode(dst, p, version|byte(pr.kind))
}

// copied returns the address of a copy of v, and the program for its type.
func (r *Registry) copied(v any) (pointer, *program, error) {
	rv := reflect.ValueOf(v)
	pr, err := r.program(rv.Type())
	if err != nil {
		return nil, nil, err
	}
	to := reflect.New(rv.Type())
	to.Elem().Set(rv)
	return to.UnsafePointer(), pr, nil
}

// Decode reads one value from the whole of src into what v points to, whatever it
// held before. It reuses the slices, maps and pointers that the value holds, and
// keeps strings that do not change, so decoding into the same variable again and
// again allocates little or nothing: clear the variable first if something else
// still uses them, or if two of its pointers point to the same place. After an
// error the value is undefined, but as safe to use as any.
func (r *Registry) Decode(src []byte, v any) error {
	if v == nil {
		return decodeError(v, errNoTarget)
	}
	s, err := r.shapeOf(v)
	if err == nil && (s.access != atPointer || dataWord(v) == nil) {
		err = errNoTarget
	}
	if err != nil {
		return decodeError(v, err)
	}
	_, err = s.prog.decode(src, 0, dataWord(v), nil)
	return err
}

var errNoTarget = errors.New("the target is not a pointer, or nil")

// AppendAny appends v with the name or number of its type, so that DecodeAny
// needs to know nothing. The type must be registered, errors aside; nil has an
// encoding. The bytes are those of a variable of type any that holds v.
func (r *Registry) AppendAny(dst []byte, v any) ([]byte, error) {
	e := encoder{reg: r, depth: r.opts.MaxDepth, limit: len(dst) + r.opts.MaxSize}
	out, err := e.dynamic(append(dst, version|byte(kindTyped)), v)
	if err == nil {
		err = e.checkSize(out)
	}
	if err != nil {
		return dst, encodeError(v, err)
	}
	return out, nil
}

// DecodeAny reads what AppendAny wrote: a value of a registered type, or nil.
func (r *Registry) DecodeAny(src []byte) (any, error) {
	var d decoder
	if err := d.start(r, src); err != nil {
		return nil, decodeError(nil, err)
	}
	d.texts = true
	k, isNil, err := d.header()
	if err == nil && (k != kindTyped || isNil) {
		err = mismatch("it holds %s, want a value of a registered type, as AppendAny writes it", k)
	}
	var v any
	if err == nil {
		v, err = d.dynamic()
	}
	if err = d.finish(err); err != nil {
		return nil, decodeError(v, err)
	}
	return v, nil
}

// Coder encodes and decodes values of one type. It writes and reads the same bytes
// as its registry, and is a little faster. It is a small value, to be made once and
// copied freely; only what [Of] returned is of use. Its methods may be called from
// many goroutines.
type Coder[T any] struct{ prog *program }

// Of returns the coder of a type. It fails if the type has no encoding.
func Of[T any](r *Registry) (Coder[T], error) {
	pr, err := r.program(reflect.TypeFor[T]())
	if err != nil {
		return Coder[T]{}, encodeError(new(T), err)
	}
	return Coder[T]{pr}, nil
}

// Append is [Registry.Append] of a T.
func (c Coder[T]) Append(dst []byte, v *T) ([]byte, error) {
	return c.prog.encode(dst, pointer(v), version|byte(c.prog.kind))
}

// Decode is [Registry.Decode] of a T.
func (c Coder[T]) Decode(src []byte, v *T) error {
	_, err := c.prog.decode(src, 0, pointer(v), nil)
	return err
}

// tooLarge is the error of an encoding over the limit.
func tooLarge(size, limit int) error {
	return fmt.Errorf("%w: %d bytes, at most %d are allowed (Options.MaxSize)", ErrLimit, size, limit)
}
