package frames

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is matched by the errors of all Parse functions.
var ErrMalformed = errors.New("malformed frame")

// Limits.
const (
	MaxText    = 4096    // bytes of a name or another text
	MaxSchema  = 1 << 20 // bytes of the schema of one type
	MaxEntries = 1 << 16 // types in a catalog
)

// reader reads fields from the front of a frame. After the first error, which it keeps, all fields
// are zero.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
	r.rest = nil
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail("it is too short")
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	if len(r.rest) > 0 && r.rest[0] < 0x80 {
		n := uint64(r.rest[0])
		r.rest = r.rest[1:]
		return n
	}
	n, k := binary.Uvarint(r.rest)
	if k <= 0 || k > 1 && r.rest[k-1] == 0 {
		r.fail("a number is too short, too long, or not in its shortest form")
		return 0
	}
	r.rest = r.rest[k:]
	return n
}

// bytes reads a length up to limit and that many bytes.
func (r *reader) bytes(limit int) []byte {
	n := r.uvarint()
	if n > uint64(limit) || n > uint64(len(r.rest)) {
		r.fail("%d bytes where %d are allowed and %d are left", n, limit, len(r.rest))
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) text() string { return string(r.bytes(MaxText)) }

// all returns the bytes that are left.
func (r *reader) all() []byte {
	b := r.rest
	r.rest = nil
	return b
}

// end returns the error, or one if bytes are left.
func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.fail("%d bytes are left at its end", len(r.rest))
	}
	return r.err
}

func appendUvarint(dst []byte, n uint64) []byte {
	if n < 0x80 {
		return append(dst, byte(n))
	}
	return binary.AppendUvarint(dst, n)
}

func appendText(dst []byte, s string) []byte {
	return append(appendUvarint(dst, uint64(len(s))), s...)
}
