package omnibus

import (
	"math"
	"strconv"

	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/omnirest/rowjson"
)

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// appendReal appends a number. JSON has none for infinity.
func appendReal(b []byte, f float64) []byte {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}

func appendValue(b []byte, v alert.Value, boolean bool) []byte {
	switch {
	case v.IsText():
		return rowjson.AppendString(b, v.String())
	case v.IsReal():
		return appendReal(b, v.Real())
	case boolean && !booleansAsNumbers:
		return strconv.AppendBool(b, v.Bool())
	}
	return appendInt(b, v.Int())
}

// appendEscaped appends a key field as URLs have it: all but letters, digits and
// -_.~ as %XX.
func appendEscaped(b []byte, s string) []byte {
	const upper = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == '~' {
			b = append(b, c)
			continue
		}
		b = append(b, '%', upper[c>>4], upper[c&15])
	}
	return b
}
