package binary

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/mainstemdev/mainstem/codec"
)

// encoder appends one message to a buffer.
type encoder struct {
	reg   *Registry
	depth int // how many more levels are allowed
	limit int // how long the buffer may become
}

// encodeAny is encode for all types, with a header.
func (pr *program) encodeAny(dst []byte, p pointer) ([]byte, error) {
	if p == nil {
		return dst, pr.failed("encode", errNoValue)
	}
	e := encoder{reg: pr.reg, depth: pr.reg.opts.MaxDepth, limit: len(dst) + pr.reg.opts.MaxSize}
	var out []byte
	var err error
	switch pr.op {
	case opStruct:
		out, err = e.structure(append(dst, version|byte(kindStruct)), pr, p)
	case opString:
		out = appendString(append(dst, version|byte(kindBytes)), *at[string](p))
	default:
		out, err = e.message(dst, pr, p)
	}
	if err == nil && len(out) > e.limit {
		err = e.checkSize(out)
	}
	if err != nil {
		return dst, pr.failed("encode", err)
	}
	return out, nil
}

var errNoValue = errors.New("nil points to nothing")

// failed returns the error of an encode or decode at a pointer to a value.
func (pr *program) failed(op string, err error) error {
	return &codec.Error{Codec: Name, Op: op, Type: "*" + pr.typ.String(), Err: err}
}

func (e *encoder) checkSize(out []byte) error {
	if len(out) > e.limit {
		return tooLarge(len(out)-e.limit+e.reg.opts.MaxSize, e.reg.opts.MaxSize)
	}
	return nil
}

// message appends a header and the value at p.
func (e *encoder) message(dst []byte, pr *program, p pointer) ([]byte, error) {
	if pr.nilable && pr.isNil(p) {
		return append(dst, version|flagNil|byte(pr.kind)), nil
	}
	return e.value(append(dst, version|byte(pr.kind)), pr, p)
}

// value appends the value at p, which is not nil if its type has a nil.
func (e *encoder) value(dst []byte, pr *program, p pointer) ([]byte, error) {
	switch pr.op {
	case opString:
		return appendString(dst, *at[string](p)), nil
	case opStruct:
		return e.structure(dst, pr, p)
	case opInt8, opInt16, opInt32, opInt64:
		return appendVarint(dst, pr.int(p)), nil
	case opBool, opUint8, opUint16, opUint32, opUint64:
		return appendUvarint(dst, pr.uint(p)), nil
	case opFloat32:
		return binary.LittleEndian.AppendUint32(dst, *at[uint32](p)), nil
	case opFloat64:
		return binary.LittleEndian.AppendUint64(dst, *at[uint64](p)), nil
	case opBytes:
		b := *at[[]byte](p)
		return append(appendUvarint(dst, uint64(len(b))), b...), nil
	case opByteArray:
		return append(appendUvarint(dst, uint64(pr.length)), bytesAt(p, pr.length)...), nil
	case opPointer:
		return e.value(dst, pr.elem, *at[pointer](p))
	case opInterface:
		return e.iface(dst, pr, p)
	case opTime:
		return appendTime(dst, *at[time.Time](p))
	case opComplex64, opComplex128:
		return appendComplex(dst, pr, p), nil
	case opMarshaler, opText:
		return appendMarshaled(dst, pr, p)
	}
	return e.container(dst, pr, p)
}

// int returns the signed integer at p.
func (pr *program) int(p pointer) int64 {
	switch pr.op {
	case opInt8:
		return int64(*at[int8](p))
	case opInt16:
		return int64(*at[int16](p))
	case opInt32:
		return int64(*at[int32](p))
	}
	return *at[int64](p)
}

// uint returns the unsigned integer at p. A bool is 0 or 1.
func (pr *program) uint(p pointer) uint64 {
	switch pr.op {
	case opBool, opUint8:
		return uint64(*at[uint8](p))
	case opUint16:
		return uint64(*at[uint16](p))
	case opUint32:
		return uint64(*at[uint32](p))
	}
	return *at[uint64](p)
}

func appendUvarint(dst []byte, u uint64) []byte {
	if u < 0x80 {
		return append(dst, byte(u))
	}
	return binary.AppendUvarint(dst, u)
}

func appendVarint(dst []byte, n int64) []byte { return appendUvarint(dst, zigzag(n)) }

// zigzag maps integers near zero, of both signs, to small numbers.
func zigzag(n int64) uint64 { return uint64(n<<1) ^ uint64(n>>63) }

func appendString(dst []byte, s string) []byte {
	return append(appendUvarint(dst, uint64(len(s))), s...)
}

func appendComplex(dst []byte, pr *program, p pointer) []byte {
	if pr.op == opComplex64 {
		c := *at[complex64](p)
		dst = binary.LittleEndian.AppendUint32(append(dst, 8), math.Float32bits(real(c)))
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(imag(c)))
	}
	c := *at[complex128](p)
	dst = binary.LittleEndian.AppendUint64(append(dst, 16), math.Float64bits(real(c)))
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(imag(c)))
}
