package kafkatopic

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/mainstemdev/mainstem/alert"
)

// appendRow appends a row as a JSON object.
func appendRow(b []byte, row alert.Row) []byte {
	b = append(b, '{')
	first := true
	for name, v := range row.All() {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendText(b, name)
		b = append(b, ':')
		b = appendValue(b, v)
	}
	return append(b, '}')
}

func appendValue(b []byte, v alert.Value) []byte {
	switch {
	case v.IsText():
		return appendText(b, v.String())
	case !v.IsReal():
		return strconv.AppendInt(b, v.Int(), 10)
	}
	f := v.Real()
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}

// appendText appends a JSON string. What is not UTF-8 becomes U+FFFD.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return appendEscaped(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func appendEscaped(b []byte, s string) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be encoded
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}
