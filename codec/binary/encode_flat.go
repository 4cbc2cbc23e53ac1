package binary

import "encoding/binary"

// flatRoom is the room that encode needs for the end and for what it writes
// eight bytes at a time.
const flatRoom = 16

// encode appends the value at p as a message, with its header, or without one if
// header is 0 and the program is flat. Errors are complete, and give dst back.
//
// The types that most messages have are done here: structs of scalars and strings
// whose tags have one byte. It is what structure does for them, without anything
// to look up or to fail.
func (pr *program) encode(dst []byte, p pointer, header byte) ([]byte, error) {
	if !pr.isFlat || p == nil {
		return pr.encodeAny(dst, p)
	}
	b, n := withRoom(dst, pr.room)
	to := roomOf(b)
	if header != 0 {
		to.put(n, header)
		n++
	}
	fields := pr.fields
	for i := range fields {
		f := &fields[i]
		q := offset(p, f.offset)
		var u uint64
		switch f.op {
		case opString:
			s := *at[string](q)
			if len(s) == 0 {
				continue
			}
			if len(b)-n < len(s)+pr.room {
				b, n = withRoom(b[:n], len(s)+pr.room)
				to = roomOf(b)
			}
			if len(s) < 0x80 {
				to.put(n, byte(f.tag))
				to.put(n+1, byte(len(s)))
				n += 2
			} else {
				n = to.putLong(n, f.tag, uint64(len(s)))
			}
			switch k := len(s); {
			case k < 4 || k > 16:
				copy(b[n:], s)
			case k < 8:
				to.puts8(n, s)
			default:
				to.puts16(n, s)
			}
			n += len(s)
			continue
		case opInt32:
			u = zigzag(int64(*at[int32](q)))
		case opInt64:
			u = zigzag(*at[int64](q))
		case opUint32:
			u = uint64(*at[uint32](q))
		case opUint64:
			u = *at[uint64](q)
		case opFloat32:
			n = to.put4(n, f.tag, *at[uint32](q))
			continue
		case opFloat64:
			n = to.put8(n, f.tag, *at[uint64](q))
			continue
		case opBool, opUint8:
			u = uint64(*at[uint8](q))
		default:
			u = f.prog.short(q)
		}
		switch {
		case u == 0:
		case u < 0x80:
			to.put(n, byte(f.tag))
			to.put(n+1, byte(u))
			n += 2
		default:
			n = to.putLong(n, f.tag, u)
		}
	}
	to.put(n, 0)
	if n-len(dst) >= pr.maxSize && header != 0 {
		return dst, pr.failed("encode", tooLarge(n+1-len(dst), pr.maxSize))
	}
	return b[:n+1], nil
}

// put4 and put8 put a tag of one byte and the bits of a float at n, unless they are
// all zero: minus zero is not left out.

func (r room) put4(n int, tag uint32, bits uint32) int {
	if bits == 0 {
		return n
	}
	r.put(n, byte(tag))
	binary.LittleEndian.PutUint32(r.at8(n + 1)[:], bits)
	return n + 5
}

func (r room) put8(n int, tag uint32, bits uint64) int {
	if bits == 0 {
		return n
	}
	r.put(n, byte(tag))
	binary.LittleEndian.PutUint64(r.at8(n + 1)[:], bits)
	return n + 9
}

// short returns an integer of one or two bytes as its varint has it.
func (pr *program) short(p pointer) uint64 {
	switch pr.op {
	case opInt8:
		return zigzag(int64(*at[int8](p)))
	case opInt16:
		return zigzag(int64(*at[int16](p)))
	}
	return uint64(*at[uint16](p))
}

// putLong puts a tag of one byte and a varint at n, and returns what follows.
func (r room) putLong(n int, tag uint32, u uint64) int {
	r.put(n, byte(tag))
	for n++; u >= 0x80; n++ {
		r.put(n, byte(u)|0x80)
		u >>= 7
	}
	r.put(n, byte(u))
	return n + 1
}
