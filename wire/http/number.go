package viewhttp

import (
	"strconv"

	"github.com/mainstemdev/mainstem"
)

// position is a position in JSON: a text of digits, because numbers above 2^53 lose their last
// digits in many languages. It is read from a number, too.
type position mainstem.Position

// MarshalJSON writes the digits as a text.
func (p position) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatUint(uint64(p), 10)), nil
}

// UnmarshalJSON reads digits, as a text or as a number.
func (p *position) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseUint(unquoted(data), 10, 64)
	if err != nil {
		return invalid("%.40s is not a position: want digits, as a text or a number", data)
	}
	*p = position(n)
	return nil
}

// counter is a signed number of 64 bits in JSON, as [position] is.
type counter int64

// MarshalJSON writes the digits as a text.
func (n counter) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatInt(int64(n), 10)), nil
}

// UnmarshalJSON reads digits, as a text or as a number.
func (n *counter) UnmarshalJSON(data []byte) error {
	v, err := strconv.ParseInt(unquoted(data), 10, 64)
	if err != nil {
		return invalid("%.40s is not a whole number of 64 bits: want digits, as a text or a number", data)
	}
	*n = counter(v)
	return nil
}

// unquoted returns what stands between quotes, or data if there are none.
func unquoted(data []byte) string {
	if n := len(data); n >= 2 && data[0] == '"' && data[n-1] == '"' {
		data = data[1 : n-1]
	}
	return string(data)
}
