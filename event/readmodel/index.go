package readmodel

import (
	"reflect"
	"strings"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// Index declares an order of the entries of a table by fields; see [Options.Indexes].
type Index struct {
	// Fields are the fields by which the index is ordered, the first one first, named as in a
	// [Query]. At least one.
	Fields []string
	// Unique forbids that two entries have equal fields: a write that would cause it fails with a
	// [*kv.UniqueError]. An entry with a null field is not in a unique index, so it never
	// conflicts.
	Unique bool
	// Version numbers the definition. Increase it when the type of a field changes, so that the
	// index is built anew. Default 0.
	Version uint32
}

// index is an [Index] that was checked against the type of its table.
type index struct {
	name    string   // in package kv; see indexName
	paths   []string // Index.Fields
	fields  []*field // one for each of paths
	partial bool     // entries with a null field are not in the index
}

// compileIndexes checks the indexes of a table of t. It returns them for queries (out), and as
// package kv maintains them (keep).
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

// indexName returns the name of the index over fields: the paths joined by underlines, with dashes
// for dots, such as Status_Address-City. No two lists of fields have one name: a capital letter
// after an underline begins a field, so where it does not, as in the field Order_ID, a 0 stands
// between them, and also before a 0.
func indexName(fields []string) string {
	var name strings.Builder
	for i, path := range fields {
		if i > 0 {
			name.WriteByte('_')
		}
		for j := range len(path) {
			switch c := path[j]; {
			case c == '.':
				name.WriteByte('-')
			case c == '_' && j+1 < len(path) && (path[j+1] == '0' || 'A' <= path[j+1] && path[j+1] <= 'Z'):
				name.WriteString("_0")
			default:
				name.WriteByte(c)
			}
		}
	}
	return name.String()
}

// partsOf returns the function that computes the parts of an entry in the index: one for each
// field, or none if the entry is not in the index.
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

// partOf returns a value of kind k as a part. The order of parts is that of compare.
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

// nullable reports whether the field of t can be null: whether it, or a struct on the path to it,
// is a pointer. Pointers of t itself do not count, since a nil entry has no fields at all.
func (f *field) nullable(t reflect.Type) bool {
	for _, index := range f.index {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		for i := range index {
			if i > 0 && t.Kind() == reflect.Pointer {
				return true // the struct is embedded by a pointer
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
