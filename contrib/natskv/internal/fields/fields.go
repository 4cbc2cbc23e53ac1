// Package fields reads and writes the fields of structs by name. The adapters to
// go-micro and go-orb use it, because they take those frameworks' records and options as
// type parameters: the frameworks are not imported, and their versions differ in what
// else the structs have.
//
//	f := fields.Of(&options)
//	limit := f.Count("Limit")
//
// A field that a struct does not have reads as the zero value. The package
// holds no state.
//
//snippet:var options struct{ Limit int }
package fields

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"time"
)

// Fields is a struct that can be read and written by the names of its fields, those
// of embedded structs included.
type Fields struct{ v reflect.Value }

// Of returns the fields of what pointer points to, which must be a struct.
func Of(pointer any) Fields { return Fields{reflect.ValueOf(pointer).Elem()} }

// Check returns an error if T is not a struct that has all the fields named, each
// able to hold the value given with it.
func Check[T any](want map[string]any) error {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return fmt.Errorf("%s is not a struct", t)
	}
	for name, value := range want {
		f, ok := t.FieldByName(name)
		if !ok {
			return fmt.Errorf("%s has no field %s", t, name)
		}
		if !reflect.TypeOf(value).ConvertibleTo(f.Type) {
			return fmt.Errorf("the field %s of %s has the type %s: want %T", name, t, f.Type, value)
		}
	}
	return nil
}

func (f Fields) field(name string, kind reflect.Kind) (reflect.Value, bool) {
	v := f.v.FieldByName(name)
	return v, v.IsValid() && v.Kind() == kind
}

// String returns a field of a string type.
func (f Fields) String(name string) string {
	if v, ok := f.field(name, reflect.String); ok {
		return v.String()
	}
	return ""
}

// Bool returns a field of a boolean type.
func (f Fields) Bool(name string) bool {
	v, ok := f.field(name, reflect.Bool)
	return ok && v.Bool()
}

// Count returns a field of the type uint; what no int can hold is the largest int.
func (f Fields) Count(name string) int {
	if v, ok := f.field(name, reflect.Uint); ok {
		return int(min(v.Uint(), math.MaxInt))
	}
	return 0
}

// Duration returns a field of the type time.Duration.
func (f Fields) Duration(name string) time.Duration { return get[time.Duration](f, name) }

// Time returns a field of the type time.Time.
func (f Fields) Time(name string) time.Time { return get[time.Time](f, name) }

// Bytes returns a field of the type []byte.
func (f Fields) Bytes(name string) []byte { return get[[]byte](f, name) }

// Value returns a field of any type, nil if there is none.
func (f Fields) Value(name string) any {
	if v := f.v.FieldByName(name); v.IsValid() && v.CanInterface() {
		return v.Interface()
	}
	return nil
}

// Context returns a field of the type context.Context, or otherwise.
func (f Fields) Context(name string, otherwise context.Context) context.Context {
	if ctx := get[context.Context](f, name); ctx != nil {
		return ctx
	}
	return otherwise
}

func get[T any](f Fields, name string) T {
	v, _ := f.Value(name).(T)
	return v
}

// Set gives a field a value, converted to its type if it must be. It is false,
// and does nothing, if there is no such field or the value does not fit.
func (f Fields) Set(name string, value any) bool {
	v, x := f.v.FieldByName(name), reflect.ValueOf(value)
	if !v.IsValid() || !v.CanSet() || !x.IsValid() || !x.CanConvert(v.Type()) {
		return false
	}
	v.Set(x.Convert(v.Type()))
	return true
}
