package binary

import (
	"encoding/binary"
	"math"
)

// window is a copy of the input from begin on, for the strings in it.
type window struct {
	text   string
	begin  int
	budget int // how many more bytes may be allocated, for strings and all else
}

// windowMemory is what a new window takes out of the budget.
const windowMemory = maxWindow + maxWindow/4 + 16

// decode reads a message into the value at p, if start is 0; errors are complete.
// If it is not 0, the fields of a flat struct are there; strings come out of w.
//
// The types that most messages have are done here, as a program of the same version
// writes them: structs of scalars and strings, in order and without other fields.
// All else, errors included, is for decodeShort and decodeAny; inside of a message,
// -1 is returned, and structure reads the fields again.
//
// The loop calls nothing but what sets a string, so that all it needs stays in
// registers.
func (pr *program) decode(src []byte, start int, p pointer, w *window) (int, error) {
	pos := start
	if start == 0 {
		if uint(len(src)-1) >= uint(pr.flatQuick) || src[0] != version|byte(kindStruct) || p == nil {
			return 0, pr.decodeShort(src, p)
		}
		pos = 1
	}
	fields, from := pr.fields, roomOf(src)
loop:
	for i := 0; ; i++ {
		if i >= len(fields) {
			if uint(pos) < uint(len(src)) && src[pos] == 0 && (start != 0 || pos+1 == len(src)) {
				return pos + 1, nil
			}
			break
		}
		f := &fields[i]
		if uint(pos) >= uint(len(src)) {
			break loop
		}
		q := offset(p, f.offset)
		if tag := uint32(src[pos]); tag != f.tag {
			if tag != 0 && (tag >= 0x80 || tag < f.tag) {
				break loop
			}
			f.zeroFlat(q)
			continue
		}
		pos++
		if !f.varint {
			n := f.setFixed(q, from, pos, len(src)-pos)
			if n == 0 {
				break loop
			}
			pos += n
			continue
		}
		if uint(pos) >= uint(len(src)) {
			break loop
		}
		u := uint64(src[pos])
		pos++
		for shift := 7; u>>shift != 0; shift += 7 { // bit 7 says so, and is taken away when the next byte is added
			if uint(pos) >= uint(len(src)) || shift > 56 {
				break loop
			}
			u += (uint64(src[pos]) - 1) << shift
			pos++
		}
		switch f.op {
		case opString:
			s, begin := at[string](q), pos
			if u > uint64(len(src)-pos) {
				break loop
			}
			pos += int(u)
			if w == nil && len(*s) == 0 {
				*s = string(src[begin:pos])
			} else if !w.set(s, src, begin, pos) {
				break loop
			}
		case opInt64:
			*at[int64](q) = unzigzag(u)
		case opUint64:
			*at[uint64](q) = u
		default:
			if !f.setShort(q, u) {
				break loop
			}
		}
	}
	if start == 0 {
		return 0, pr.decodeAny(src, p)
	}
	return -1, nil
}

// zeroFlat sets the field at q to zero.
func (f *field) zeroFlat(q pointer) {
	switch f.op {
	case opString:
		*at[string](q) = ""
	case opInt64, opUint64, opFloat64:
		*at[uint64](q) = 0
	case opInt32, opUint32, opFloat32:
		*at[uint32](q) = 0
	case opInt16, opUint16:
		*at[uint16](q) = 0
	default:
		*at[uint8](q) = 0
	}
}

// setFixed reads a float, of which left bytes are there at most, and returns its
// length, 0 if it is cut off.
func (f *field) setFixed(q pointer, from room, pos, left int) int {
	switch {
	case f.op == opFloat64 && left >= 8:
		*at[uint64](q) = binary.LittleEndian.Uint64(from.at8(pos)[:])
		return 8
	case f.op == opFloat32 && left >= 4:
		*at[uint32](q) = binary.LittleEndian.Uint32(from.at4(pos)[:])
		return 4
	}
	return 0
}

// setShort sets a bool or an integer of less than eight bytes, unless u does not fit.
func (f *field) setShort(q pointer, u uint64) bool {
	n := unzigzag(u)
	switch f.op {
	case opInt32:
		*at[int32](q) = int32(n)
		return int64(int32(n)) == n
	case opUint32:
		*at[uint32](q) = uint32(u)
		return u <= math.MaxUint32
	case opInt16:
		*at[int16](q) = int16(n)
		return int64(int16(n)) == n
	case opUint16:
		*at[uint16](q) = uint16(u)
		return u <= math.MaxUint16
	case opInt8:
		*at[int8](q) = int8(n)
		return int64(int8(n)) == n
	case opUint8:
		*at[uint8](q) = uint8(u)
		return u <= math.MaxUint8
	}
	*at[bool](q) = u == 1
	return u <= 1
}

// set sets *s to the input from begin to end, and moves the window there if it
// must; without a window that is copied alone. It refuses what takes more than a
// window, or is over the budget.
func (w *window) set(s *string, src []byte, begin, end int) bool {
	n := end - begin
	switch {
	case n == len(*s) && *s == string(src[begin:end]):
		return true
	case w == nil:
		*s = string(src[begin:end])
		return true
	}
	if at := begin - w.begin; at+n <= len(w.text) {
		*s = w.text[at : at+n]
		return true
	}
	if n > maxWindow/2 || w.budget < windowMemory {
		return false
	}
	w.budget -= windowMemory
	w.begin, w.text = begin, string(src[begin:min(begin+maxWindow, len(src))])
	*s = w.text[:n]
	return true
}
