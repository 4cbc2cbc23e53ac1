package aggregate

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/mainstemdev/mainstem/codec"
)

// Snapshotter is implemented by an aggregate, or by a pointer to the state of a decider, that
// encodes itself in place of [Options.SnapshotCodec].
type Snapshotter interface {
	// Snapshot returns the encoded state without ID and version, which the repository stores.
	Snapshot() ([]byte, error)
	// Restore sets the state of a new aggregate to an encoded state that Snapshot returned. It must
	// not keep data.
	Restore(data []byte) error
}

// snapshotCodec encodes states by their own methods, or by a codec.
type snapshotCodec struct{ codec codec.Codec }

func (c snapshotCodec) snapshot(v any) ([]byte, error) {
	if s, ok := v.(Snapshotter); ok {
		return s.Snapshot()
	}
	return c.codec.Append(nil, v)
}

// restore decodes data into v, a pointer to a state without events. It first removes what v holds:
// data may not mention fields that are zero, and codecs keep those, and entries of maps.
func (c snapshotCodec) restore(data []byte, v any) error {
	if s, ok := v.(Snapshotter); ok {
		return s.Restore(data)
	}
	if state := reflect.ValueOf(v).Elem(); !hasOwnForm(state.Type()) {
		if state.Kind() == reflect.Pointer && !state.IsNil() { // Decider.Initial may return the same one each time
			fresh := reflect.New(state.Type().Elem())
			fresh.Elem().Set(state.Elem())
			state.Set(fresh)
			state = fresh.Elem()
		}
		empty(state)
	}
	return c.codec.Decode(data, v)
}

// empty makes all of v zero, except that maps are empty and not nil, since the methods of the state
// may write to them. It leaves a [Root], and fields that are not exported.
func empty(v reflect.Value) {
	switch t := v.Type(); {
	case v.IsZero(): // as most are in a new state: the cases that follow take longer to tell
	case t == reflect.TypeFor[Root]():
	case t.Kind() == reflect.Struct && !hasOwnForm(t):
		for f := range fields(t) {
			at := v.FieldByIndex(f.Index)
			if f.Anonymous && at.Kind() == reflect.Pointer && !at.IsNil() { // it may embed the Root
				at = at.Elem()
			}
			if at.CanSet() || f.Anonymous {
				empty(at)
			}
		}
	case !v.CanSet():
	case t.Kind() == reflect.Map && !v.IsNil():
		v.Set(reflect.MakeMap(t))
	default:
		v.SetZero()
	}
}

// checkSnapshots returns an error if the codec would silently lose part of a T.
func checkSnapshots[T any](c codec.Codec) error {
	t := reflect.TypeFor[T]()
	if implements(t, reflect.TypeFor[Snapshotter]()) {
		return nil
	}
	if t.Kind() == reflect.Interface {
		return fmt.Errorf("%s is an interface: a snapshot needs a type, or one with the methods of Snapshotter", t)
	}
	return checkEncoded(t, t.String(), tagsOf[c.Name()], make(map[reflect.Type]bool))
}

// tagsOf are the keys of the struct tags that a codec reads, by its name. Of several, the first one
// that a field has counts.
var tagsOf = map[string][]string{"json": {"json"}, "cbor": {"cbor", "json"}, "msgpack": {"msgpack"}, "binary": {"bin"}}

// leftOut reports whether the tag of a field leaves it out. That does no harm to a [Root].
func leftOut(f reflect.StructField, tags []string) bool {
	i := slices.IndexFunc(tags, func(key string) bool { return f.Tag.Get(key) != "" })
	return i >= 0 && f.Tag.Get(tags[i]) == "-" && f.Type != reflect.TypeFor[Root]()
}

// encodesItself are the interfaces of types that encode themselves: their fields are not checked.
var encodesItself = []reflect.Type{
	reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.BinaryMarshaler](),
}

// hasOwnForm reports whether values of type t encode themselves.
func hasOwnForm(t reflect.Type) bool {
	return slices.ContainsFunc(encodesItself, func(i reflect.Type) bool { return implements(t, i) })
}

// implements reports whether t or a pointer to it has the methods of the interface i.
func implements(t, i reflect.Type) bool { return t.Implements(i) || reflect.PointerTo(t).Implements(i) }

// checkEncoded checks all types that a codec reaches from t. path is the Go path of t, for the
// error. tags are those of tagsOf. seen holds the types that were checked, since types may be
// recursive. A [Root] passes, because the repository stores its state.
func checkEncoded(t reflect.Type, path string, tags []string, seen map[reflect.Type]bool) error {
	if seen[t] || t == reflect.TypeFor[Root]() {
		return nil
	}
	seen[t] = true
	if hasOwnForm(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return checkEncoded(t.Elem(), path, tags, seen)
	case reflect.Map:
		if err := checkEncoded(t.Key(), path, tags, seen); err != nil {
			return err
		}
		return checkEncoded(t.Elem(), path, tags, seen)
	case reflect.Struct:
		for f := range fields(t) {
			at := path + "." + f.Name
			if leftOut(f, tags) {
				return fmt.Errorf("a snapshot would lose %s, which its tag leaves out: remove the tag, or implement Snapshotter", at)
			}
			if !f.IsExported() && (!f.Anonymous || f.Type.Kind() != reflect.Struct) {
				return fmt.Errorf("a snapshot would lose %s, which is not exported: export it, or implement Snapshotter", at)
			}
			if err := checkEncoded(f.Type, at, tags, seen); err != nil {
				return err
			}
		}
	case reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return fmt.Errorf("a snapshot cannot hold %s, which is a %s: implement Snapshotter", path, t.Kind())
	}
	return nil
}

// fields yields the fields of a struct type, except those called _.
func fields(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if f := t.Field(i); f.Name != "_" && !yield(f) {
				return
			}
		}
	}
}
