package binary

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"time"
)

// maxWindow is how many bytes of the input are copied at once for the strings in
// it: a message with many short strings costs one allocation, and a string that is
// kept keeps no more than this in memory. Strings over half of it are copied alone.
const maxWindow = 512

// decoder reads one message.
type decoder struct {
	src    []byte
	pos    int
	depth  int // how many more levels are allowed
	reg    *Registry
	window window
	texts  bool // there may be more than one string, so that a window is worth it
}

// decodeShort is decode for the other types of short messages, and then for all.
func (pr *program) decodeShort(src []byte, p pointer) error {
	if len(src) == 0 || len(src) > pr.quick || p == nil {
		return pr.decodeAny(src, p)
	}
	switch {
	case pr.op == opString && setWhole(at[string](p), src):
		return nil
	case pr.isFlat && src[0] == version|byte(kindStruct) && pr.flatQuick == 0:
		w := window{budget: 3*len(src) + 2*windowMemory} // not a limit: see program.quick
		if end, _ := pr.decode(src, 1, p, &w); end == len(src) {
			return nil
		}
	}
	return pr.decodeAny(src, p)
}

// decodeAny is decode for all types.
func (pr *program) decodeAny(src []byte, p pointer) error {
	var d decoder
	err := d.start(pr.reg, src)
	switch {
	case p == nil:
		err = errNoTarget
	case err == nil:
		d.texts = pr.traits&hasTexts != 0
		if pr.kind == kindContainer && pr.op != opPointer && len(src) > 0 && src[0] == version|byte(kindContainer) {
			d.pos = 1
			err = d.finish(d.container(pr, p))
		} else {
			err = d.finish(d.message(pr, p))
		}
	}
	if err != nil {
		return pr.failed("decode", err)
	}
	return nil
}

// setWhole sets *p to the string that is all of src, if it is one with a length
// below 128. It is what the decoder does, for the shortest of messages.
func setWhole(p *string, src []byte) bool {
	if len(src) < 2 || src[0] != version|byte(kindBytes) || int(src[1]) != len(src)-2 || src[1] >= 0x80 {
		return false
	}
	if string(src[2:]) != *p {
		*p = string(src[2:])
	}
	return true
}

// start prepares to read src. It sets the fields one by one: a literal would be
// built elsewhere and copied.
func (d *decoder) start(r *Registry, src []byte) error {
	if len(src) > r.opts.MaxSize {
		return tooLarge(len(src), r.opts.MaxSize)
	}
	d.src, d.reg, d.depth = src, r, r.opts.MaxDepth
	d.window.budget = r.maxAlloc + r.allocFactor*len(src)
	return nil
}

// finish returns the error of a message that was read, or of what follows it.
func (d *decoder) finish(err error) error {
	if err == nil && d.pos == len(d.src) {
		return nil
	}
	return d.problem(err)
}

func (d *decoder) problem(err error) error {
	if err != nil {
		return fmt.Errorf("at byte %d of %d: %w", d.pos, len(d.src), err)
	}
	return malformed("the value ends at byte %d of %d", d.pos, len(d.src))
}

// message reads a header and a value.
func (d *decoder) message(pr *program, p pointer) error {
	k, isNil, err := d.header()
	switch {
	case err != nil:
		return err
	case !isNil:
		return d.value(pr, p, k)
	case !pr.nilable:
		return mismatch("nil has no place in a %s", pr.typ)
	}
	pr.zero(p)
	return nil
}

// value reads a value that was written as k.
func (d *decoder) value(pr *program, p pointer, k kind) error {
	if k == pr.kind {
		return d.exact(pr, p)
	}
	return d.converted(pr, p, k)
}

// converted reads a value that was written as a kind that its program does not write.
func (d *decoder) converted(pr *program, p pointer, k kind) error {
	switch pr.op {
	case opPointer:
		if err := d.point(pr, p); err != nil {
			return err
		}
		return d.value(pr.elem, *at[pointer](p), k)
	case opInt8, opInt16, opInt32, opInt64:
		if k == kindUint {
			u, err := d.uvarint()
			if err == nil && u > math.MaxInt64 {
				err = mismatch("%d overflows %s", u, pr.typ)
			}
			if err != nil {
				return err
			}
			return pr.setInt(p, int64(u))
		}
	case opUint8, opUint16, opUint32, opUint64:
		if k == kindInt {
			n, err := d.varint()
			if err == nil && n < 0 {
				err = mismatch("%d overflows %s", n, pr.typ)
			}
			if err != nil {
				return err
			}
			return pr.setUint(p, uint64(n))
		}
	case opFloat32, opFloat64:
		if k == kindFixed32 || k == kindFixed64 {
			return d.otherFloat(pr, p)
		}
	}
	return mismatch("it holds %s, want a %s", k, pr.typ)
}

// exact reads a value that was written as the kind of its program.
func (d *decoder) exact(pr *program, p pointer) error {
	switch pr.op {
	case opString:
		return d.text(at[string](p))
	case opStruct:
		return d.structure(pr, p)
	case opInt8, opInt16, opInt32, opInt64:
		n, err := d.varint()
		if err != nil {
			return err
		}
		return pr.setInt(p, n)
	case opBool, opUint8, opUint16, opUint32, opUint64:
		n, err := d.uvarint()
		if err != nil {
			return err
		}
		return pr.setUint(p, n)
	case opFloat32:
		b, err := d.take(4)
		if err == nil {
			*at[uint32](p) = binary.LittleEndian.Uint32(b)
		}
		return err
	case opFloat64:
		b, err := d.take(8)
		if err == nil {
			*at[uint64](p) = binary.LittleEndian.Uint64(b)
		}
		return err
	case opPointer:
		if err := d.point(pr, p); err != nil {
			return err
		}
		return d.exact(pr.elem, *at[pointer](p))
	case opInterface:
		return d.iface(pr, p)
	case opTime:
		return d.time(at[time.Time](p))
	case opSlice, opStrings, opArray, opMap, opStringMap:
		return d.container(pr, p)
	}
	return d.blob(pr, p)
}

// point makes the pointer at p point to something.
func (d *decoder) point(pr *program, p pointer) error {
	to := at[pointer](p)
	if *to != nil {
		return nil
	}
	if err := d.charge(1, pr.elem.size); err != nil {
		return err
	}
	*to = reflect.New(pr.elem.typ).UnsafePointer()
	return nil
}

// setInt sets the signed integer at p, unless n does not fit.
func (pr *program) setInt(p pointer, n int64) error {
	fits := true
	switch pr.op {
	case opInt8:
		*at[int8](p), fits = int8(n), int64(int8(n)) == n
	case opInt16:
		*at[int16](p), fits = int16(n), int64(int16(n)) == n
	case opInt32:
		*at[int32](p), fits = int32(n), int64(int32(n)) == n
	default:
		*at[int64](p) = n
	}
	if !fits {
		return mismatch("%d overflows %s", n, pr.typ)
	}
	return nil
}

// setUint sets the unsigned integer or bool at p, unless n does not fit.
func (pr *program) setUint(p pointer, n uint64) error {
	fits := true
	switch pr.op {
	case opBool:
		*at[bool](p), fits = n == 1, n <= 1
	case opUint8:
		*at[uint8](p), fits = uint8(n), n <= math.MaxUint8
	case opUint16:
		*at[uint16](p), fits = uint16(n), n <= math.MaxUint16
	case opUint32:
		*at[uint32](p), fits = uint32(n), n <= math.MaxUint32
	default:
		*at[uint64](p) = n
	}
	if !fits {
		return mismatch("%d overflows %s", n, pr.typ)
	}
	return nil
}

// otherFloat reads a float of the size that the program does not have.
func (d *decoder) otherFloat(pr *program, p pointer) error {
	if pr.op == opFloat64 {
		b, err := d.take(4)
		if err == nil {
			*at[float64](p) = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
		return err
	}
	b, err := d.take(8)
	if err != nil {
		return err
	}
	f := math.Float64frombits(binary.LittleEndian.Uint64(b))
	if float64(float32(f)) != f && f == f {
		return mismatch("%v has no exact %s", f, pr.typ)
	}
	*at[float32](p) = float32(f)
	return nil
}

// blob reads what was written with a length, strings aside.
func (d *decoder) blob(pr *program, p pointer) error {
	b, err := d.bytes()
	if err != nil {
		return err
	}
	switch pr.op {
	case opBytes:
		return d.setBytes(at[[]byte](p), b)
	case opByteArray:
		if len(b) != pr.length {
			return mismatch("it holds %d bytes, want a %s", len(b), pr.typ)
		}
		copy(bytesAt(p, pr.length), b)
		return nil
	case opComplex64, opComplex128:
		return setComplex(pr, p, b)
	}
	return d.marshaled(pr, p, b)
}

func (d *decoder) setBytes(p *[]byte, b []byte) error {
	if cap(*p) < len(b) || *p == nil {
		if err := d.charge(len(b), 1); err != nil {
			return err
		}
		*p = make([]byte, 0, len(b))
	}
	*p = append((*p)[:0], b...)
	return nil
}

func setComplex(pr *program, p pointer, b []byte) error {
	if len(b) != int(pr.size) {
		return mismatch("it holds %d bytes, want a %s", len(b), pr.typ)
	}
	if pr.op == opComplex64 {
		re, im := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
		*at[complex64](p) = complex(math.Float32frombits(re), math.Float32frombits(im))
		return nil
	}
	re, im := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	*at[complex128](p) = complex(math.Float64frombits(re), math.Float64frombits(im))
	return nil
}
