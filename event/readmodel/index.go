package readmodel

import (
	"reflect"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// Index is an order of the entries of a table by their fields, in which queries find what they select; see [Options.Indexes].
type Index struct {
	// Fields are those that it is ordered by, one after the other, named as in a [Query].
	Fields []string
	// Unique lets no two entries have equal fields: a write that would is a [*kv.UniqueError]. An entry whose field is null
	// is equal to no other.
	Unique bool
	// Version numbers the definition: raise it when the type of a field changes, so that the index is built anew.
	Version uint32
}

// index is an [Index] of a table.
type index struct {
	name    string
	paths   []string
	fields  []*field
	partial bool // entries with a null are not in it
}

// compileIndexes returns the indexes of a table of t, and how the table is to keep them.
func compileIndexes[T any](t reflect.Type, indexes []Index) (out []index, keep []kv.Index[T], err error) {
	for _, i := range indexes {
		x := index{paths: i.Fields, name: indexName(i.Fields)}
		if len(i.Fields) == 0 {
			return nil, nil, mainstem.Refusef(mainstem.KindInvalid, "read model", "an index of %s has no fields", t)
		}
		for _, path := range i.Fields {
			f, reason := findField(t, path)
			if reason == "" && (f.kind == kindOther || f.kind == kindList) {
				reason = "a " + f.typ.String() + " has no order"
			}
			if reason != "" {
				return nil, nil, &FieldError{Type: t.String(), Field: path, Reason: reason}
			}
			x.fields = append(x.fields, f)
			x.partial = x.partial || i.Unique && f.nullable(t)
		}
		keep = append(keep, kv.Index[T]{Name: x.name, Of: partsOf[T](&x), Unique: i.Unique, Version: i.Version})
		out = append(out, x)
	}
	return out, keep, nil
}

// indexName returns the name of an index over fields: Status_Address-City.
func indexName(fields []string) string {
	return strings.ReplaceAll(strings.Join(fields, "_"), ".", "-")
}

func partsOf[T any](x *index) func(T) []kv.Part {
	fields, partial := x.fields, x.partial
	return func(entry T) []kv.Part {
		v := deref(reflect.ValueOf(&entry))
		if !v.IsValid() {
			return nil
		}
		parts := make([]kv.Part, len(fields))
		for i, f := range fields {
			value := f.value(v)
			if partial && !value.there {
				return nil
			}
			parts[i] = partOf(f.kind, value)
		}
		return parts
	}
}

// partOf returns a value of kind k as a part, whose order is that of compare.
func partOf(k kind, v value) kv.Part {
	switch {
	case !v.there:
		return kv.Null()
	case k == kindUint:
		return kv.Uint(v.u)
	case k == kindFloat:
		return kv.Float(v.f)
	case k == kindText:
		return kv.Text(v.s)
	case k == kindBool:
		return kv.Bool(v.i == 1)
	case k == kindTime:
		return kv.Time(v.t)
	}
	return kv.Int(v.i)
}

// nullable reports whether the field of t, or a struct on the way to it, is a pointer. t itself may be one,
// but a nil entry has no fields.
func (f *field) nullable(t reflect.Type) bool {
	for _, index := range f.index {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		for i := range index {
			if i > 0 && t.Kind() == reflect.Pointer {
				return true // an embedded pointer
			}
			for t.Kind() == reflect.Pointer {
				t = t.Elem()
			}
			t = t.Field(index[i]).Type
		}
		if t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}
