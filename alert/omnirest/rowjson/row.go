package rowjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"strconv"
	"time"
)

// Row is one row of a result: a JSON object in its bytes. A column that is not
// there reads as "" or 0. A Row may be used by many goroutines; Raw is shared.
type Row struct{ raw []byte }

// NewRow returns the row that raw holds, which must be what [Reader.Value] returned
// for an object, and belongs to the row now.
func NewRow(raw []byte) Row { return Row{raw: raw} }

// Raw returns the row as JSON. Do not change it.
func (r Row) Raw() []byte { return r.raw }

// MarshalJSON returns the row as it is.
func (r Row) MarshalJSON() ([]byte, error) {
	if len(r.raw) == 0 {
		return []byte("{}"), nil
	}
	return r.raw, nil
}

// Get returns the value of a column, and whether the row has the column.
func (r Row) Get(name string) (Value, bool) {
	for k, v := range r.pairs() {
		if string(k) == name {
			return v, true
		}
		if bytes.IndexByte(k, '\\') < 0 {
			continue
		}
		if s, err := unquoteInner(k); err == nil && s == name {
			return v, true
		}
	}
	return Value{}, false
}

// Text returns the text in a column.
func (r Row) Text(name string) string { v, _ := r.Get(name); return v.Text() }

// Int returns the whole number in a column.
func (r Row) Int(name string) int64 { v, _ := r.Get(name); return v.Int() }

// Real returns the number in a column.
func (r Row) Real(name string) float64 { v, _ := r.Get(name); return v.Real() }

// Time returns the time in a column of seconds since 1970; 0 is the zero Time.
func (r Row) Time(name string) time.Time { v, _ := r.Get(name); return v.Time() }

// All yields the columns in the order of the JSON.
func (r Row) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for k, v := range r.pairs() {
			s, err := unquoteInner(k)
			if err != nil {
				s = string(k)
			}
			if !yield(s, v) {
				return
			}
		}
	}
}

// pairs yields keys, between their quotes, and values. The JSON has no white space.
func (r Row) pairs() iter.Seq2[[]byte, Value] {
	return func(yield func([]byte, Value) bool) {
		p := r.raw
		if len(p) < 2 || p[0] != '{' {
			return
		}
		for p = p[1:]; len(p) > 0 && p[0] != '}'; {
			n := extent(p)
			if n < 2 || n >= len(p) || p[n] != ':' {
				return
			}
			key := p[1 : n-1]
			p = p[n+1:]
			if n = extent(p); n == 0 || !yield(key, Value{raw: p[:n]}) {
				return
			}
			if p = p[n:]; len(p) > 0 && p[0] == ',' {
				p = p[1:]
			}
		}
	}
}

// extent returns how long the value at the beginning of p is, 0 if it has no end.
func extent(p []byte) int {
	depth := 0
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '"':
			n := stringExtent(p[i:])
			if n == 0 {
				return 0
			}
			if i += n - 1; depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ':':
			if depth == 0 {
				return i
			}
		}
	}
	if depth > 0 {
		return 0
	}
	return len(p)
}

// stringExtent returns how long the string at the beginning of p is, with its quotes.
func stringExtent(p []byte) int {
	for at := 1; at < len(p); at++ {
		quote := bytes.IndexByte(p[at:], '"')
		if quote < 0 {
			return 0
		}
		at += quote
		slashes := 0
		for p[at-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return at + 1
		}
	}
	return 0
}

// Value is one value of a row, as the JSON has it. The zero Value is that of a
// column that is not there.
type Value struct{ raw []byte }

// Raw returns the JSON of the value. Do not change it.
func (v Value) Raw() []byte { return v.raw }

// IsText reports whether the value is a string.
func (v Value) IsText() bool { return len(v.raw) > 0 && v.raw[0] == '"' }

// Text returns a string's text, nothing for null and for a column that is not
// there, and the JSON of anything else.
func (v Value) Text() string {
	if !v.IsText() {
		if string(v.raw) == "null" {
			return ""
		}
		return string(v.raw)
	}
	s, err := unquote(v.raw)
	if err != nil {
		return ""
	}
	return s
}

// Int returns a number as a whole number: reals are cut, true is 1, texts that are
// no number are 0.
func (v Value) Int() int64 {
	n, ok := v.whole()
	if ok {
		return n
	}
	f := v.Real()
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	case f != f:
		return 0
	}
	return int64(f)
}

func (v Value) whole() (int64, bool) {
	n, err := strconv.ParseInt(v.number(), 10, 64)
	return n, err == nil
}

func (v Value) number() string {
	switch {
	case v.IsText():
		return v.Text()
	case string(v.raw) == "true":
		return "1"
	}
	return string(v.raw)
}

// Real returns a number; texts that are no number are 0.
func (v Value) Real() float64 {
	f, err := strconv.ParseFloat(v.number(), 64)
	if err != nil {
		return 0
	}
	return f
}

// Bool reports whether v is true or a number other than 0.
func (v Value) Bool() bool { return v.Real() != 0 }

// Time returns v, seconds since 1970, as a time; 0 is the zero Time.
func (v Value) Time() time.Time {
	if n := v.Int(); n != 0 {
		return time.Unix(n, 0)
	}
	return time.Time{}
}

// Any returns v as a string, an int64, a float64, a bool, nil for null, or what
// package encoding/json makes of anything else.
func (v Value) Any() any {
	if n, ok := v.whole(); ok && !v.IsText() && len(v.raw) > 0 && v.raw[0] != 't' {
		return n
	}
	var x any
	if json.Unmarshal(v.raw, &x) != nil {
		return nil
	}
	return x
}

var errNoString = errors.New("no string")

// unquote returns the text of a JSON string.
func unquote(p []byte) (string, error) {
	if len(p) < 2 {
		return "", errNoString
	}
	return unquoteInner(p[1 : len(p)-1])
}

// unquoteInner returns the text of a JSON string without its quotes.
func unquoteInner(p []byte) (string, error) {
	if bytes.IndexByte(p, '\\') < 0 {
		return intern(p), nil
	}
	quoted := make([]byte, 0, len(p)+2)
	quoted = append(append(append(quoted, '"'), p...), '"')
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return "", errNoString
	}
	return s, nil
}

// intern returns p as a string; the keys of every result take no memory.
func intern(p []byte) string {
	switch string(p) {
	case "rowset":
		return "rowset"
	case "rows":
		return "rows"
	case "affectedRows":
		return "affectedRows"
	case "coldesc":
		return "coldesc"
	case "osname":
		return "osname"
	case "name":
		return "name"
	case "type":
		return "type"
	case "size":
		return "size"
	case "string":
		return "string"
	case "integer":
		return "integer"
	case "clusterName":
		return "clusterName"
	}
	return string(p)
}
