package readmodel

import (
	"cmp"
	"math"
	"reflect"
	"strings"
	"time"
)

// kind is how the values of a field are compared. Every integer type is kindInt or kindUint, and so
// on.
type kind uint8

const (
	kindOther kind = iota // not comparable: structs, maps and the like
	kindInt
	kindUint
	kindFloat
	kindText
	kindBool
	kindTime
	kindList // slices and arrays; Contains compares their elements
)

var timeType = reflect.TypeFor[time.Time]()

// kindOf returns the kind of a type that is not a pointer.
func kindOf(t reflect.Type) kind {
	if t == timeType {
		return kindTime
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return kindInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return kindUint
	case reflect.Float32, reflect.Float64:
		return kindFloat
	case reflect.String:
		return kindText
	case reflect.Bool:
		return kindBool
	case reflect.Slice, reflect.Array:
		return kindList
	}
	return kindOther
}

// value is a value of a field or of a query. One of its fields is used, as the kind says; a bool is
// 0 or 1 in i. The zero value is null.
type value struct {
	there bool // false: null
	i     int64
	u     uint64
	f     float64
	s     string
	t     time.Time
}

// valueOf returns v, which is of kind k, as a value.
func valueOf(k kind, v reflect.Value) value {
	x := value{there: true}
	switch k {
	case kindInt:
		x.i = v.Int()
	case kindUint:
		x.u = v.Uint()
	case kindFloat:
		x.f = v.Float()
	case kindText:
		x.s = v.String()
	case kindBool:
		if v.Bool() {
			x.i = 1
		}
	case kindTime:
		x.t = v.Interface().(time.Time)
	}
	return x
}

// compare orders two values of kind k, null before all others. For NaN ok is false, and order puts
// NaN before all numbers.
func compare(k kind, a, b value) (order int, ok bool) {
	switch {
	case !a.there || !b.there:
		return boolToInt(a.there) - boolToInt(b.there), true
	case k == kindUint:
		return cmp.Compare(a.u, b.u), true
	case k == kindFloat:
		return cmp.Compare(a.f, b.f), !math.IsNaN(a.f) && !math.IsNaN(b.f)
	case k == kindText:
		return strings.Compare(a.s, b.s), true
	case k == kindTime:
		return a.t.Compare(b.t), true
	}
	return cmp.Compare(a.i, b.i), true
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// convert returns the operand of a query as a value of kind k, for a field of type t. It returns
// false if t cannot represent the operand exactly: 2.5 is no int, 300 is no int8, 1<<53 + 1 is no
// float64, and 0.1 as a float64 is no float32.
func convert(k kind, t reflect.Type, operand any) (value, bool) {
	x, ok := convertKind(k, operand)
	switch {
	case !ok:
	case k == kindInt:
		ok = !t.OverflowInt(x.i)
	case k == kindUint:
		ok = !t.OverflowUint(x.u)
	case k == kindFloat && t.Kind() == reflect.Float32:
		ok = float64(float32(x.f)) == x.f || math.IsNaN(x.f)
	}
	return x, ok
}

// convertKind is convert for the largest type of kind k.
func convertKind(k kind, operand any) (value, bool) {
	v := reflect.ValueOf(operand)
	if !v.IsValid() {
		return value{}, false
	}
	from := kindOf(v.Type())
	if from == k && k != kindOther && k != kindList {
		return valueOf(k, v), true
	}
	x := value{there: true}
	ok := false
	switch {
	case k == kindInt && from == kindUint:
		x.i, ok = int64(v.Uint()), v.Uint() <= math.MaxInt64
	case k == kindInt && from == kindFloat:
		f := v.Float()
		x.i, ok = int64(f), f == math.Trunc(f) && f >= -(1<<63) && f < 1<<63
	case k == kindUint && from == kindInt:
		x.u, ok = uint64(v.Int()), v.Int() >= 0
	case k == kindUint && from == kindFloat:
		f := v.Float()
		x.u, ok = uint64(f), f == math.Trunc(f) && f >= 0 && f < 1<<64
	case k == kindFloat && from == kindInt:
		x.f = float64(v.Int())
		ok = x.f < 1<<63 && int64(x.f) == v.Int()
	case k == kindFloat && from == kindUint:
		x.f = float64(v.Uint())
		ok = x.f < 1<<64 && uint64(x.f) == v.Uint()
	}
	return x, ok
}

// like reports whether text matches a pattern of Like. It backtracks only to the last %, so it
// takes time in proportion to the product of the lengths at most.
func like(text, pattern []rune) bool {
	t, p := 0, 0
	star, mark := -1, 0 // index of the last % in pattern, and the end in text of its match
	for t < len(text) {
		literal, width := p < len(pattern), 1
		var r rune
		if literal {
			if r = pattern[p]; r == '\\' && p+1 < len(pattern) {
				r, width = pattern[p+1], 2
			}
		}
		switch {
		case literal && width == 1 && r == '%':
			star, mark = p, t
			p++
		case literal && (r == text[t] || width == 1 && r == '_'):
			t, p = t+1, p+width
		case star >= 0:
			mark++
			t, p = mark, star+1
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '%' {
		p++
	}
	return p == len(pattern)
}
