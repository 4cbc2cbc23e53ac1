package binary

import (
	"encoding/binary"
	"slices"
	"time"
)

// structure appends the fields that are not zero, then the end. It writes into
// the capacity of the buffer: before each field there is room for pr.room bytes,
// which is enough for all that is not a string or nested.
func (e *encoder) structure(dst []byte, pr *program, p pointer) ([]byte, error) {
	if e.depth--; e.depth < 0 {
		return dst, tooDeep(e.reg.opts.MaxDepth)
	}
	if pr.isFlat {
		e.depth++
		out, err := pr.encode(dst, p, 0)
		if len(out) > e.limit {
			err = e.checkSize(out)
		}
		return out, err
	}
	b, n := withRoom(dst, pr.room)
	fields := pr.fields
	for i := range fields {
		f := &fields[i]
		q := offset(p, f.offset)
		switch f.op {
		case opString:
			s := *at[string](q)
			if len(s) == 0 {
				continue
			}
			if len(b)-n < len(s)+pr.room {
				b, n = withRoom(b[:n], len(s)+pr.room)
			}
			n = f.putTag(b, n)
			n = putUvarint(b, n, uint64(len(s)))
			n += copy(b[n:], s)
		case opInt32:
			if v := *at[int32](q); v != 0 {
				n = putUvarint(b, f.putTag(b, n), zigzag(int64(v)))
			}
		case opInt64:
			if v := *at[int64](q); v != 0 {
				n = putUvarint(b, f.putTag(b, n), zigzag(v))
			}
		case opUint32:
			if v := *at[uint32](q); v != 0 {
				n = putUvarint(b, f.putTag(b, n), uint64(v))
			}
		case opUint64:
			if v := *at[uint64](q); v != 0 {
				n = putUvarint(b, f.putTag(b, n), v)
			}
		case opFloat32: // by its bits, because minus zero is not omitted
			if v := *at[uint32](q); v != 0 {
				n = f.putTag(b, n)
				binary.LittleEndian.PutUint32(b[n:], v)
				n += 4
			}
		case opFloat64:
			if v := *at[uint64](q); v != 0 {
				n = f.putTag(b, n)
				binary.LittleEndian.PutUint64(b[n:], v)
				n += 8
			}
		default:
			if f.omitted(q) {
				continue
			}
			out, err := e.field(b[:n], f, q)
			if err != nil {
				return dst, inside(f.name, err)
			}
			b, n = withRoom(out, pr.room)
		}
	}
	if n > e.limit {
		return dst, e.checkSize(b[:n])
	}
	e.depth++
	b[n] = 0
	return b[:n+1], nil
}

// withRoom returns the whole capacity of dst, at least room bytes more than its
// length, and the length.
func withRoom(dst []byte, room int) ([]byte, int) {
	if cap(dst)-len(dst) < room {
		dst = slices.Grow(dst, room)
	}
	return dst[:cap(dst)], len(dst)
}

// putTag puts the tag of the field at n, and returns what follows it.
func (f *field) putTag(b []byte, n int) int {
	binary.LittleEndian.PutUint32(b[n:], f.tagBytes)
	return n + int(f.tagLen)
}

func putUvarint(b []byte, n int, u uint64) int {
	if u < 0x80 {
		b[n] = byte(u)
		return n + 1
	}
	return n + binary.PutUvarint(b[n:], u)
}

// field appends a field that is not a scalar or string.
func (e *encoder) field(dst []byte, f *field, p pointer) ([]byte, error) {
	before := len(dst)
	dst = appendUvarint(dst, uint64(f.tag))
	body := len(dst)
	dst, err := e.value(dst, f.prog, p)
	if f.op == opStruct && len(dst) == body+1 {
		dst = dst[:before] // a struct of zero fields is zero
	}
	return dst, err
}

// omitted reports whether a field has the value that a reader gives to an absent one.
func (f *field) omitted(p pointer) bool {
	switch f.op {
	case opBool, opInt8, opUint8:
		return *at[uint8](p) == 0
	case opInt16, opUint16:
		return *at[uint16](p) == 0
	case opTime:
		t := at[time.Time](p)
		return t.IsZero() && t.Location() == time.UTC
	case opInterface:
		return *at[pointer](p) == nil // the type word, or the table of methods
	}
	return f.prog.nilable && f.prog.isNil(p)
}
