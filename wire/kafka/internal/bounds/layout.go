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
	text                 // length and bytes, which the decoder copies
	blob                 // length and bytes, which the decoder refers to
	array                // count and elements
	optional             // one byte, -1 for null, and a structure
	inline               // a structure
)

// field is one field of a structure, or the element of an array.
type field struct {
	kind kind
	size int     // on the wire if fixed; in memory otherwise: of one element, or of the structure
	of   *field  // array: the element
	in   *layout // inline, optional: the structure
}

// layout is how a structure is written.
type layout struct {
	fields []field
	tagged bool // tags follow, and lengths are compact
	sealed bool // among the tags known are some that the decoder would have to trust: none is let through
}

// id names a layout.
type id struct{ key, version int16 }

var layouts sync.Map // id → *layout

// layoutOf returns the layout of a kind of request.
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

// learner finds out how a request is written by changing it.
type learner struct{ req kmsg.Request }

func (le learner) encoded() []byte { return le.req.AppendTo(nil) }

// presence says where a field is written.
type presence uint8

const (
	absent presence = iota // not in this version
	inPlace
	asTag
)

// structure adds a structure that is part of the request. It says asTag if the
// structure, or all that there is of it, is written as a tag.
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

// plain says whether a value of the type has neither arrays nor tags in it, so that
// it costs little to decode whatever is there.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		return false
	case reflect.Pointer, reflect.Slice:
		return t.Elem().Kind() == reflect.String || t.Elem().Kind() == reflect.Uint8
	}
	return true
}

// field adds one field, which it leaves as it was.
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

// grown says where a field is written whose change should have made the request
// longer by n bytes.
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

// array adds an array: a second element takes as much room as the first, unless
// the array is written as a tag, which is there only if it is not empty.
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

// optional adds a structure that may be null.
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
