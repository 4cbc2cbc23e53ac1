package rowjson

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
)

// Value takes the next value and appends it to dst, without white space.
func (r *Reader) Value(dst []byte) ([]byte, error) {
	from := len(dst)
	dst, err := r.value(dst, from+r.limits.MaxValue, MaxDepth-r.depth)
	if err != nil {
		return dst[:from], err
	}
	return validUTF8(dst, from), nil
}

// validUTF8 puts the replacement character where dst[from:] is no UTF-8.
func validUTF8(dst []byte, from int) []byte {
	if utf8.Valid(dst[from:]) {
		return dst
	}
	return append(dst[:from], bytes.ToValidUTF8(bytes.Clone(dst[from:]), []byte("\uFFFD"))...)
}

func (r *Reader) value(dst []byte, most, depth int) ([]byte, error) {
	c, err := r.Peek()
	if err != nil {
		return dst, err
	}
	switch {
	case c == '"':
		return r.text(dst, r.limits.TrimNUL)
	case c == '{' || c == '[':
		if depth <= 0 {
			return dst, r.corrupt("more than %d values inside of each other", MaxDepth)
		}
		return r.composite(dst, c, most, depth)
	case c == '-' || c >= '0' && c <= '9':
		return r.number(dst)
	case c == 't':
		return r.word(dst, "true")
	case c == 'f':
		return r.word(dst, "false")
	case c == 'n':
		return r.word(dst, "null")
	}
	return dst, r.corrupt("%q where a value should be", c)
}

// composite takes an object or an array.
func (r *Reader) composite(dst []byte, begin byte, most, depth int) ([]byte, error) {
	end := begin + 2 // ASCII has ']' and '}' two after '[' and '{'
	dst = append(dst, begin)
	r.at++
	for first := true; ; first = false {
		c, err := r.Peek()
		switch {
		case err != nil:
			return dst, err
		case c == end:
			r.at++
			return append(dst, end), nil
		case !first:
			if c != ',' {
				return dst, r.corrupt("%q where a comma should be", c)
			}
			r.at++
			dst = append(dst, ',')
			if c, err = r.Peek(); err == nil && c == end {
				return dst, r.corrupt("%q after a comma", c)
			}
		}
		if begin == '{' {
			if c, err = r.Peek(); err == nil && c != '"' {
				return dst, r.corrupt("%q where a key should be", c)
			}
			if dst, err = r.text(dst, false); err != nil {
				return dst, err
			}
			if err = r.take(':'); err != nil {
				return dst, err
			}
			dst = append(dst, ':')
		}
		if dst, err = r.value(dst, most, depth-1); err != nil {
			return dst, err
		}
		if len(dst) > most {
			return dst, r.tooLong()
		}
	}
}

func (r *Reader) tooLong() error {
	if r.err == nil {
		r.err = mainstem.Errorf(mainstem.KindInvalid, "read result", "a row or value has more than %d bytes: ask for fewer columns, or raise the limit", r.limits.MaxValue)
	}
	return r.err
}

// plain is true for bytes that stand for themselves in a string.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return t
}()

// text takes a string, with its quotes.
func (r *Reader) text(dst []byte, trimNUL bool) ([]byte, error) {
	if err := r.take('"'); err != nil {
		return dst, err
	}
	from := len(dst)
	dst = append(dst, '"')
	nul := -1 // where a \u0000 ended
	for {
		run := r.at
		for run < len(r.buf) && plain[r.buf[run]] {
			run++
		}
		dst = append(dst, r.buf[r.at:run]...)
		r.at = run
		if len(dst)-from > r.limits.MaxValue {
			return dst, r.tooLong()
		}
		if run == len(r.buf) {
			if !r.fill() {
				return dst, r.err
			}
			continue
		}
		switch c := r.buf[r.at]; c {
		case '"':
			r.at++
			if trimNUL && nul == len(dst) {
				dst = dst[:len(dst)-len(`\u0000`)]
			}
			return append(dst, '"'), nil
		case '\\':
			zero, err := false, error(nil)
			if dst, zero, err = r.escape(dst); err != nil {
				return dst, err
			}
			if zero {
				nul = len(dst)
			}
		default:
			return dst, r.corrupt("the control character %q in a string", c)
		}
	}
}

// escape takes a backslash and what follows; zero reports that it was a NUL.
func (r *Reader) escape(dst []byte) (out []byte, zero bool, err error) {
	r.at++
	c, err := r.next()
	if err != nil {
		return dst, false, err
	}
	dst = append(dst, '\\', c)
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return dst, false, nil
	case 'u':
	default:
		return dst, false, r.corrupt("the escape \\%c in a string", c)
	}
	zero = true
	for range 4 {
		if c, err = r.next(); err != nil {
			return dst, false, err
		}
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return dst, false, r.corrupt("%q is no hexadecimal digit", c)
		}
		zero = zero && c == '0'
		dst = append(dst, c)
	}
	return dst, zero, nil
}

// next takes one byte, white space or not.
func (r *Reader) next() (byte, error) {
	if r.at == len(r.buf) && !r.fill() {
		return 0, r.err
	}
	r.at++
	return r.buf[r.at-1], nil
}

// word takes true, false or null.
func (r *Reader) word(dst []byte, want string) ([]byte, error) {
	for i := range len(want) {
		c, err := r.next()
		if err != nil {
			return dst, err
		}
		if c != want[i] {
			return dst, r.corrupt("%q where %s should be", c, want)
		}
	}
	return append(dst, want...), nil
}

// maxNumber bounds the digits of a number.
const maxNumber = 400

// number takes a number. It may be the last thing of the stream.
func (r *Reader) number(dst []byte) ([]byte, error) {
	from := len(dst)
	for {
		if r.at == len(r.buf) && !r.fill() {
			if len(dst) > from && ended(r.err) {
				break
			}
			return dst, r.err
		}
		c := r.buf[r.at]
		if !(c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E') {
			break
		}
		if len(dst)-from == maxNumber {
			return dst, r.corrupt("a number of more than %d digits", maxNumber)
		}
		dst = append(dst, c)
		r.at++
	}
	if !isNumber(dst[from:]) {
		return dst, r.corrupt("%.64q is no number", dst[from:])
	}
	return dst, nil
}

// isNumber reports whether p is a number as JSON spells them.
func isNumber(p []byte) bool {
	p = bytes.TrimPrefix(p, []byte("-"))
	zero := len(p) > 0 && p[0] == '0'
	whole, p := digits(p)
	if whole == 0 || whole > 1 && zero {
		return false
	}
	if len(p) > 0 && p[0] == '.' {
		var n int
		if n, p = digits(p[1:]); n == 0 {
			return false
		}
	}
	if len(p) > 0 && (p[0] == 'e' || p[0] == 'E') {
		p = p[1:]
		if len(p) > 0 && (p[0] == '+' || p[0] == '-') {
			p = p[1:]
		}
		var n int
		if n, p = digits(p); n == 0 {
			return false
		}
	}
	return len(p) == 0
}

// digits returns how many digits p begins with, and what follows them.
func digits(p []byte) (int, []byte) {
	n := 0
	for n < len(p) && p[n] >= '0' && p[n] <= '9' {
		n++
	}
	return n, p[n:]
}

// ended reports whether a stream ended where a number may end.
func ended(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }
