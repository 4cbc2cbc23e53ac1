package readmodelpg

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem/internal/uuid"
)

// family is how the values of a column are encoded, decoded and compared.
type family uint8

const (
	famInt family = iota
	famUint
	famFloat
	famText
	famBool
	famTime
	famBytes
	famUUID // a string or 16 bytes
	famList // of elements of famInt to famTime
	famJSON // all other types
)

// sqlType is the type of a column.
type sqlType struct {
	name   string // as format_type of PostgreSQL returns it
	family family
	elem   family // of the elements; only of famList
	cast   string // type to which values for comparisons are cast; for a list, that of one element
}

// isList reports whether a nil field is NULL although the field is no pointer.
func (t sqlType) isList() bool { return t.family == famList || t.family == famBytes }

var (
	timeType = reflect.TypeFor[time.Time]()
	uuidType = reflect.TypeFor[[16]byte]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

// aliases are the type names that a tag may give, and the names that PostgreSQL has for them.
var aliases = map[string]string{
	"smallint": "smallint", "int2": "smallint", "integer": "integer", "int": "integer", "int4": "integer", "bigint": "bigint", "int8": "bigint",
	"numeric": "numeric", "decimal": "numeric", "real": "real", "float4": "real", "double precision": "double precision", "float8": "double precision",
	"text": "text", "varchar": "character varying", "character varying": "character varying", "boolean": "boolean", "bool": "boolean",
	"timestamptz": "timestamp with time zone", "timestamp with time zone": "timestamp with time zone",
	"bytea": "bytea", "uuid": "uuid", "json": "json", "jsonb": "jsonb",
}

// fits are the column types for each family of fields. They can hold its values; a value that a
// smaller type cannot hold is refused when it is written.
var fits = map[family]string{
	famInt: "smallint integer bigint numeric", famUint: "smallint integer bigint numeric", famFloat: "double precision",
	famText: "text character varying uuid", famBool: "boolean", famTime: "timestamp with time zone", famBytes: "bytea", famUUID: "uuid",
}

var typePattern = regexp.MustCompile(`^([a-z0-9 ]+?) *(\([0-9]+(?: *, *[0-9]+)?\))?$`)

// typeOf returns the column type of a field of type t. asked is the type in its tag, or "" for the
// default.
func typeOf(t reflect.Type, asked string) (sqlType, error) {
	typ := defaultType(t)
	if asked == "" {
		return typ, nil
	}
	m := typePattern.FindStringSubmatch(strings.ToLower(strings.TrimSpace(asked)))
	if m == nil || aliases[m[1]] == "" {
		return typ, refuse("type %.40q is not one of those that this package knows", asked)
	}
	name := aliases[m[1]]
	modifier, ok := modifierOf(name, m[2])
	switch {
	case !ok:
		return typ, refuse("type %.40q: %s takes no %s", asked, name, m[2])
	case name == "json" || name == "jsonb":
		return sqlType{name: name, family: famJSON}, nil
	case name == "real" && t.Kind() == reflect.Float32:
	case !contains(fits[typ.family], name):
		return typ, refuse("type %.40q does not fit a %s", asked, t)
	}
	typ.name = name + modifier
	switch {
	case name == "uuid":
		typ.family, typ.cast = famUUID, "uuid"
	case typ.family == famUint && name == "numeric":
		typ.cast = "numeric"
	case typ.family == famUint:
		typ.cast = "bigint" // no index of the column serves a comparison with a numeric
	}
	return typ, nil
}

// modifierOf returns the modifier of a type, such as (20,2), as format_type returns it; false if
// the type takes none.
func modifierOf(name, given string) (string, bool) {
	given = strings.ReplaceAll(given, " ", "")
	switch {
	case given == "":
		return "", true
	case name == "numeric" && !strings.Contains(given, ","):
		return given[:len(given)-1] + ",0)", true
	case name == "numeric", name == "character varying" && !strings.Contains(given, ","):
		return given, true
	}
	return "", false
}

// contains reports whether name is in list. It works for names of two words.
func contains(list, name string) bool {
	return strings.Contains(" "+list+" ", " "+name+" ")
}

// defaultType returns the column type of a field whose tag asks for none.
func defaultType(t reflect.Type) sqlType {
	switch {
	case t == timeType:
		return sqlType{name: "timestamp with time zone", family: famTime, cast: "timestamptz"}
	case t == rawType:
		return sqlType{name: "jsonb", family: famJSON}
	case t.ConvertibleTo(uuidType) && t.Kind() == reflect.Array:
		return sqlType{name: "uuid", family: famUUID, cast: "uuid"}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return sqlType{name: "bytea", family: famBytes, cast: "bytea"}
	case t.Kind() == reflect.Slice:
		if e := defaultType(t.Elem()); e.family <= famTime && e.cast != "numeric" {
			return sqlType{name: e.name + "[]", family: famList, elem: e.family, cast: e.cast}
		}
	}
	switch t.Kind() {
	case reflect.Int8, reflect.Int16:
		return sqlType{name: "smallint", family: famInt, cast: "bigint"}
	case reflect.Int32:
		return sqlType{name: "integer", family: famInt, cast: "bigint"}
	case reflect.Int, reflect.Int64:
		return sqlType{name: "bigint", family: famInt, cast: "bigint"}
	case reflect.Uint8:
		return sqlType{name: "smallint", family: famUint, cast: "bigint"}
	case reflect.Uint16:
		return sqlType{name: "integer", family: famUint, cast: "bigint"}
	case reflect.Uint32:
		return sqlType{name: "bigint", family: famUint, cast: "bigint"}
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return sqlType{name: "numeric(20,0)", family: famUint, cast: "numeric"}
	case reflect.Float32:
		return sqlType{name: "real", family: famFloat, cast: "double precision"}
	case reflect.Float64:
		return sqlType{name: "double precision", family: famFloat, cast: "double precision"}
	case reflect.String:
		return sqlType{name: "text", family: famText, cast: "text"}
	case reflect.Bool:
		return sqlType{name: "boolean", family: famBool, cast: "boolean"}
	}
	return sqlType{name: "jsonb", family: famJSON}
}

// zero returns the value, in SQL, of a new column in existing rows.
func (t sqlType) zero() string {
	switch t.family {
	case famText:
		return "''"
	case famBool:
		return "false"
	case famTime:
		return "'0001-01-01 00:00:00+00'"
	case famUUID:
		return "'00000000-0000-0000-0000-000000000000'"
	case famJSON:
		return "'null'"
	}
	return "0"
}

// Between fields and PostgreSQL, values are int64, uint64, float64, string, bool, time.Time,
// []byte, and slices of the first six (unsigned ones as []int64); nil is NULL.

// errText is the reason why a text is refused.
const errText = "PostgreSQL holds no text with a NUL or bytes that are not UTF-8"

func validText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// encode returns the value of a field; nil for NULL.
func (c *column) encode(v reflect.Value) (any, error) {
	if c.pointer {
		if v.IsNil() {
			return nil, nil
		}
		v = v.Elem()
	} else if c.null && c.typ.family == famUUID && v.Kind() == reflect.String && v.Len() == 0 {
		return nil, nil // "" is no UUID; it is how NULL was read
	}
	switch c.typ.family {
	case famJSON:
		b, err := json.Marshal(v.Interface())
		return string(b), err
	case famList:
		return encodeList(c.typ.elem, v)
	case famBytes:
		if v.IsNil() {
			return nil, nil
		}
		return v.Bytes(), nil
	}
	return encodeScalar(c.typ.family, v)
}

// encodeScalar returns the value of a field, or of an element of a list, that is not NULL.
func encodeScalar(f family, v reflect.Value) (any, error) {
	switch f {
	case famInt:
		return v.Int(), nil
	case famUint:
		return v.Uint(), nil
	case famFloat:
		if math.IsNaN(v.Float()) {
			return nil, refuse("it is NaN, which has no order")
		}
		return v.Float(), nil
	case famText:
		if !validText(v.String()) {
			return nil, refuse("%.60q: %s", v.String(), errText)
		}
		return v.String(), nil
	case famBool:
		return v.Bool(), nil
	case famTime:
		return encodeTime(v.Interface().(time.Time))
	}
	if v.Kind() == reflect.String {
		return canonicalUUID(v.String())
	}
	return uuid.UUID(v.Convert(uuidType).Interface().([16]byte)).String(), nil
}

// The years that are accepted: those that timestamptz holds in whole.
const (
	firstYear = -4712
	lastYear  = 294276
)

// encodeTime returns t as a column holds it: in UTC, truncated to the microsecond.
func encodeTime(t time.Time) (any, error) {
	if year := t.UTC().Year(); year < firstYear || year > lastYear {
		return nil, refuse("the year %d: PostgreSQL holds those from %d to %d", year, firstYear, lastYear)
	}
	return truncate(t), nil
}

func truncate(t time.Time) time.Time {
	return t.UTC().Add(-time.Duration(t.Nanosecond() % int(time.Microsecond)))
}

func canonicalUUID(s string) (any, error) {
	id, err := uuid.Parse(s)
	if err != nil {
		return nil, refuse("%.60q is not a UUID", s)
	}
	return id.String(), nil
}

// encodeList returns a slice as a value; nil for NULL.
func encodeList(elem family, v reflect.Value) (any, error) {
	if v.IsNil() {
		return nil, nil
	}
	out := make([]any, v.Len())
	for i := range out {
		var err error
		if out[i], err = encodeScalar(elem, v.Index(i)); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return typed(elem, out), nil
}

// typed returns values of one family as a slice of their Go type.
func typed(f family, values []any) any {
	switch f {
	case famInt:
		return each[int64](values)
	case famUint:
		out := make([]int64, len(values))
		for i, v := range values {
			out[i] = int64(v.(uint64))
		}
		return out
	case famFloat:
		return each[float64](values)
	case famBool:
		return each[bool](values)
	case famTime:
		return each[time.Time](values)
	}
	return each[string](values)
}

func each[T any](values []any) []T {
	out := make([]T, len(values))
	for i, v := range values {
		out[i] = v.(T)
	}
	return out
}
