package alert

import (
	"database/sql/driver"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
)

// Value is one value of a row: a text, a whole number or a real. There is no
// null: what was never given is "" or 0. Values compare with ==.
type Value struct {
	s    string
	n    int64 // a real's bits
	kind valueKind
}

type valueKind uint8

const (
	intValue valueKind = iota
	textValue
	realValue
)

// Text returns a text as a value.
func Text(s string) Value { return Value{s: s, kind: textValue} }

// Int returns a whole number as a value.
func Int(n int64) Value { return Value{n: n} }

// Real returns a real as a value.
func Real(f float64) Value { return Value{n: int64(math.Float64bits(f)), kind: realValue} }

// Bool returns a truth value as a value: 1 or 0.
func Bool(b bool) Value {
	if b {
		return Value{n: 1}
	}
	return Value{}
}

// IsText reports whether v is a text.
func (v Value) IsText() bool { return v.kind == textValue }

// IsReal reports whether v is a real.
func (v Value) IsReal() bool { return v.kind == realValue }

// Int returns v as a whole number: reals are cut, texts that are no number are 0.
func (v Value) Int() int64 {
	switch v.kind {
	case textValue:
		n, err := strconv.ParseInt(strings.TrimSpace(v.s), 10, 64)
		if err != nil {
			return 0
		}
		return n
	case realValue:
		return int64(v.Real())
	}
	return v.n
}

// Real returns v as a real; texts that are no number are 0.
func (v Value) Real() float64 {
	switch v.kind {
	case textValue:
		f, err := strconv.ParseFloat(strings.TrimSpace(v.s), 64)
		if err != nil {
			return 0
		}
		return f
	case realValue:
		return math.Float64frombits(uint64(v.n))
	}
	return float64(v.n)
}

// Bool reports whether v is a number other than 0.
func (v Value) Bool() bool { return v.Real() != 0 }

// Time returns v, seconds since 1970, as a time; 0 is the zero Time.
func (v Value) Time() time.Time {
	if n := v.Int(); n != 0 {
		return time.Unix(n, 0)
	}
	return time.Time{}
}

// String returns v as a text.
func (v Value) String() string {
	switch v.kind {
	case textValue:
		return v.s
	case realValue:
		return strconv.FormatFloat(v.Real(), 'g', -1, 64)
	}
	return strconv.FormatInt(v.n, 10)
}

// Any returns v as a string, an int64 or a float64.
func (v Value) Any() any {
	switch v.kind {
	case textValue:
		return v.s
	case realValue:
		return v.Real()
	}
	return v.n
}

// zero reports whether v is what a column of its kind holds by default.
func (v Value) zero() bool { return v.n == 0 && v.s == "" }

// zeroOf returns what a column holds by default.
func zeroOf(t osql.Type) Value {
	switch {
	case t.Text():
		return Value{kind: textValue}
	case t == osql.Real:
		return Value{kind: realValue}
	}
	return Value{}
}

// fromSQL converts what SQLite returned for a column of type t.
func fromSQL(x driver.Value, t osql.Type) Value {
	var v Value
	switch x := x.(type) {
	case int64:
		v = Int(x)
	case string:
		v = Text(x)
	case float64:
		v = Real(x)
	case []byte:
		v = Text(string(x))
	case bool:
		v = Bool(x)
	default:
		return zeroOf(t) // NULL: the sum, or the subselect, of nothing
	}
	return conform(v, t)
}

// conform converts v to what a column of type t holds. A NaN, which earlier versions
// stored, is 0: SQLite takes it for a null, and there is none.
func conform(v Value, t osql.Type) Value {
	switch {
	case t == osql.Real && math.IsNaN(v.Real()):
		return zeroOf(t)
	case t.Text() && v.kind != textValue:
		return Text(v.String())
	case t == osql.Real && v.kind != realValue:
		return Real(v.Real())
	case !t.Text() && t != osql.Real && v.kind != intValue:
		return Int(v.Int())
	}
	return v
}

// ranges of the whole numbers.
var ranges = map[osql.Type][2]int64{
	osql.Integer: {math.MinInt32, math.MaxInt32}, osql.Time: {0, math.MaxUint32}, osql.Incr: {0, math.MaxUint32},
	osql.Unsigned: {0, math.MaxUint32}, osql.Integer64: {math.MinInt64, math.MaxInt64}, osql.Unsigned64: {0, math.MaxInt64},
}

// fit makes v a value of column c: texts are cut to its size between
// characters, numbers become texts and texts numbers if they can. What cannot be is
// Invalid.
func fit(v Value, c *osql.Column) (Value, error) {
	switch {
	case c.Type.Text():
		return Text(cut(v.String(), c.Size)), nil
	case c.Type == osql.Real:
		return fitReal(v, c)
	case c.Type == osql.Boolean:
		return fitBool(v, c)
	}
	n, err := whole(v, c)
	if err != nil {
		return v, err
	}
	if r := ranges[c.Type]; n < r[0] || n > r[1] {
		return v, mainstem.Refusef(mainstem.KindInvalid, "alert", "%d is out of range for the column %s of type %s: %d to %d", n, c.Name, c.Type, r[0], r[1])
	}
	return Int(n), nil
}

func fitReal(v Value, c *osql.Column) (Value, error) {
	f := v.Real()
	if v.kind == textValue {
		var err error
		if f, err = strconv.ParseFloat(strings.TrimSpace(v.s), 64); err != nil && v.s != "" {
			return v, mainstem.Refusef(mainstem.KindInvalid, "alert", "%w", &osql.CheckError{Value: v.s, Column: c.Name, Type: c.Type})
		}
	}
	if math.IsNaN(f) {
		return v, mainstem.Refusef(mainstem.KindInvalid, "alert", "%v is no number, as the column %s wants", f, c.Name)
	}
	return Real(f), nil
}

func whole(v Value, c *osql.Column) (int64, error) {
	switch v.kind {
	case textValue:
		s := strings.TrimSpace(v.s)
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil && s != "" {
			return 0, mainstem.Refusef(mainstem.KindInvalid, "alert", "%w", &osql.CheckError{Value: v.s, Column: c.Name, Type: c.Type})
		}
		return n, nil
	case realValue:
		if f := v.Real(); math.IsNaN(f) || f >= math.MaxInt64 || f <= math.MinInt64 {
			return 0, mainstem.Refusef(mainstem.KindInvalid, "alert", "%v is out of range for the column %s", f, c.Name)
		}
	}
	return v.Int(), nil
}

func fitBool(v Value, c *osql.Column) (Value, error) {
	if v.kind != textValue {
		return Bool(v.Bool()), nil
	}
	switch s := strings.ToLower(strings.TrimSpace(v.s)); s {
	case "true", "1":
		return Bool(true), nil
	case "false", "0", "":
		return Bool(false), nil
	}
	return v, mainstem.Refusef(mainstem.KindInvalid, "alert", "%.40q is no truth value, as the column %s wants", v.s, c.Name)
}

// cut returns the longest beginning of s that has at most size bytes and does
// not end within a character.
func cut(s string, size int) string {
	if len(s) <= size {
		return s
	}
	n := size
	for n > 0 && n > size-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// valueOf converts a Go value.
func valueOf(x any) (Value, error) {
	switch x := x.(type) {
	case Value:
		return x, nil
	case string:
		return Text(x), nil
	case []byte:
		return Text(string(x)), nil
	case int:
		return Int(int64(x)), nil
	case int8:
		return Int(int64(x)), nil
	case int16:
		return Int(int64(x)), nil
	case int32:
		return Int(int64(x)), nil
	case int64:
		return Int(x), nil
	case uint:
		return unsigned(uint64(x))
	case uint8:
		return Int(int64(x)), nil
	case uint16:
		return Int(int64(x)), nil
	case uint32:
		return Int(int64(x)), nil
	case uint64:
		return unsigned(x)
	case float32:
		return Real(float64(x)), nil
	case float64:
		return Real(x), nil
	case bool:
		return Bool(x), nil
	case time.Time:
		if x.IsZero() {
			return Value{}, nil
		}
		return Int(x.Unix()), nil
	}
	return Value{}, mainstem.Refusef(mainstem.KindInvalid, "alert", "a %T is no value: want a string, a number, a bool or a time.Time", x)
}

func unsigned(n uint64) (Value, error) {
	if n > math.MaxInt64 {
		return Value{}, mainstem.Refusef(mainstem.KindInvalid, "alert", "%d is out of range: the largest number is %d", n, int64(math.MaxInt64))
	}
	return Int(int64(n)), nil
}

// literal returns v as a literal of a statement.
func (v Value) literal() osql.Literal {
	switch v.kind {
	case textValue:
		return osql.Literal{Kind: osql.StringLiteral, Text: v.s}
	case realValue:
		return osql.Literal{Kind: osql.RealLiteral, Real: v.Real()}
	}
	return osql.Literal{Kind: osql.IntLiteral, Int: v.n}
}

// fromLiteral returns the value of a literal.
func fromLiteral(l *osql.Literal) Value {
	switch l.Kind {
	case osql.IntLiteral:
		return Int(l.Int)
	case osql.RealLiteral:
		return Real(l.Real)
	}
	return Text(l.Text)
}
