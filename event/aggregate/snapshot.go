package aggregate

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/mainstemdev/mainstem/codec"
)

// Snapshotter is an aggregate that encodes its state itself.
type Snapshotter interface {
	// Snapshot returns the state without identity and version, which the repository keeps.
	Snapshot() ([]byte, error)
	// Restore sets the state of a new aggregate to what Snapshot returned. It does not keep data.
	Restore(data []byte) error
}

// snapshotCodec encodes states.
type snapshotCodec struct{ codec codec.Codec }

func (c snapshotCodec) snapshot(v any) ([]byte, error) {
	if s, ok := v.(Snapshotter); ok {
		return s.Snapshot()
	}
	return c.codec.Append(nil, v)
}

// restore decodes data into v, a pointer.
func (c snapshotCodec) restore(data []byte, v any) error {
	if s, ok := v.(Snapshotter); ok {
		return s.Restore(data)
	}
	return c.codec.Decode(data, v)
}

// checkSnapshots returns an error if a codec would lose part of a T in silence.
func checkSnapshots[T any]() error {
	t := reflect.TypeFor[T]()
	if s := reflect.TypeFor[Snapshotter](); t.Implements(s) || reflect.PointerTo(t).Implements(s) {
		return nil
	}
	if t.Kind() == reflect.Interface {
		return fmt.Errorf("%s is an interface: a snapshot needs a type, or one with the methods of Snapshotter", t)
	}
	return checkEncoded(t, t.String(), make(map[reflect.Type]bool))
}

// encodesItself are the interfaces of types whose fields a codec does not look at.
var encodesItself = []reflect.Type{
	reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.BinaryMarshaler](),
}

// checkEncoded walks the types that a codec reaches from t, which stands at path.
func checkEncoded(t reflect.Type, path string, seen map[reflect.Type]bool) error {
	if seen[t] || t == reflect.TypeFor[Root]() {
		return nil
	}
	seen[t] = true
	for _, i := range encodesItself {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return nil
		}
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return checkEncoded(t.Elem(), path, seen)
	case reflect.Map:
		if err := checkEncoded(t.Key(), path, seen); err != nil {
			return err
		}
		return checkEncoded(t.Elem(), path, seen)
	case reflect.Struct:
		for f := range fields(t) {
			at := path + "." + f.Name
			if !f.IsExported() && !f.Anonymous {
				return fmt.Errorf("a snapshot would lose %s, which is not exported: export it, or implement Snapshotter", at)
			}
			if err := checkEncoded(f.Type, at, seen); err != nil {
				return err
			}
		}
	case reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return fmt.Errorf("a snapshot cannot hold %s, which is a %s: implement Snapshotter", path, t.Kind())
	}
	return nil
}

func fields(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if f := t.Field(i); f.Name != "_" && !yield(f) {
				return
			}
		}
	}
}
