package bounds

import (
	"bytes"
	"fmt"
	"reflect"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// kind is how a field is written.
type kind uint8

const (
	fixed    kind = iota // size bytes
	text                 // length and bytes, of which the decoder makes a copy
	blob                 // length and bytes, of which the decoder makes no copy
	array                // count and elements
	optional             // one byte, -1 for null, and a structure
	inline               // a structure
)

// field is one field of a structure, or the element of an array.
type field struct {
	kind kind
	size int     // bytes: fixed: as written; array: of an element in memory; optional: of the structure in memory
	of   *field  // array: the element
	in   *layout // inline, optional: the structure
}

// layout is how a structure is written.
type layout struct {
	fields []field
	tagged bool // a flexible version: tags follow, and lengths are compact
	sealed bool // the schema has tags with counts that the decoder trusts: no tags are allowed
}

// id is the API key and version of a layout.
type id struct{ key, version int16 }

var layouts sync.Map // id → *layout, which is not changed any more

// layoutOf returns the layout of a version of an API. The first call for it learns the layout.
func layoutOf(key, version int16) (*layout, error) {
	if l, ok := layouts.Load(id{key, version}); ok {
		return l.(*layout), nil
	}
	req := kmsg.RequestForKey(key)
	if req == nil || version < 0 || version > req.MaxVersion() {
		return nil, fmt.Errorf("no layout of request %d in version %d", key, version)
	}
	req.SetVersion(version)
	if d, ok := req.(interface{ Default() }); ok {
		d.Default()
	}
	learner := learner{req}
	l, _ := learner.structure(reflect.ValueOf(req).Elem())
	layouts.Store(id{key, version}, l)
	return l, nil
}

// learner learns the layout of a request by changing its fields. The method field restores the
// field that it and the methods it calls have changed.
type learner struct{ req kmsg.Request }

func (le learner) encoded() []byte { return le.req.AppendTo(nil) }

// presence is whether and where a field is written.
type presence uint8

const (
	absent presence = iota // not in this version
	inPlace
	asTag
)

// structure returns the layout of a structure v that is part of the request. It returns asTag
// if the structure has only fields that are written as tags, or is one itself.
func (le learner) structure(v reflect.Value) (*layout, presence) {
	l := &layout{tagged: le.req.IsFlexible()}
	where := absent
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name == "Version" || name == "UnknownTags" {
			continue
		}
		f, at := le.field(v.Field(i))
		where = max(where, at)
		switch {
		case at == inPlace:
			l.fields = append(l.fields, f)
		case at == asTag && !plain(v.Field(i).Type()):
			l.sealed = true
		}
	}
	if len(l.fields) > 0 {
		where = inPlace
	}
	return l, where
}

// plain returns whether values of a type contain no arrays and no structures, so that they
// cost little to decode whatever their bytes are.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return false
	case reflect.Pointer, reflect.Slice:
		return t.Elem().Kind() == reflect.String || t.Elem().Kind() == reflect.Uint8
	}
	return true
}

// field returns the layout of one field. Afterwards the field has its old value.
func (le learner) field(v reflect.Value) (field, presence) {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	defer v.Set(old)
	before := le.encoded()
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "a")
		return field{kind: text}, le.grown(before, 1)
	case reflect.Pointer:
		if v.Type().Elem().Kind() == reflect.String {
			one := reflect.New(v.Type().Elem())
			one.Elem().SetString("a")
			v.Set(one)
			return field{kind: text}, le.grown(before, 1)
		}
		return le.optional(v, before)
	case reflect.Struct:
		in, at := le.structure(v)
		return field{kind: inline, in: in}, at
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte{1})
			return field{kind: blob}, le.grown(before, 1)
		}
		return le.array(v, before)
	}
	flip(v)
	return field{kind: fixed, size: int(v.Type().Size())}, le.grown(before, 0)
}

// grown returns where a field is written. before is the request before the field was changed;
// in its place, the change makes the request longer by n bytes.
func (le learner) grown(before []byte, n int) presence {
	after := le.encoded()
	switch {
	case bytes.Equal(before, after):
		return absent
	case len(after) == len(before)+n:
		return inPlace
	}
	return asTag
}

// flip changes a value of fixed size.
func flip(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Array: // a UUID
		v.Index(0).SetUint(v.Index(0).Uint() ^ 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() ^ 1)
	default:
		v.SetInt(v.Int() ^ 1)
	}
}

// array returns the layout of an array. In its place, a second element adds as many bytes as
// the first. As a tag, the first element adds the number and size of the tag as well.
func (le learner) array(v reflect.Value, before []byte) (field, presence) {
	elem := v.Type().Elem()
	two := reflect.MakeSlice(v.Type(), 2, 2)
	for i := range 2 {
		if d, ok := two.Index(i).Addr().Interface().(interface{ Default() }); ok {
			d.Default()
		}
	}
	v.Set(two)
	both := len(le.encoded())
	v.Set(two.Slice(0, 1))
	one := len(le.encoded())
	switch {
	case one == len(before):
		return field{}, absent
	case one-len(before) != both-one:
		return field{}, asTag
	}
	of, _ := le.field(v.Index(0))
	return field{kind: array, size: int(elem.Size()), of: &of}, inPlace
}

// optional returns the layout of a structure that may be null.
func (le learner) optional(v reflect.Value, before []byte) (field, presence) {
	one := reflect.New(v.Type().Elem())
	if d, ok := one.Interface().(interface{ Default() }); ok {
		d.Default()
	}
	v.Set(one)
	if le.grown(before, 0) == absent {
		return field{}, absent
	}
	in, at := le.structure(one.Elem())
	return field{kind: optional, size: int(one.Elem().Type().Size()), in: in}, at
}
