package binary

import (
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
)

// appendMarshaled appends what the value's own method writes, with its length.
func appendMarshaled(dst []byte, pr *program, p pointer) ([]byte, error) {
	v := valueAt(pr.typ, p).Addr().Interface()
	var (
		own []byte
		err error
	)
	if pr.op == opText { // it may have methods that write bytes, and none that reads them
		own, err = v.(encoding.TextMarshaler).MarshalText()
	} else if m, ok := v.(encoding.BinaryAppender); ok {
		return appendAppended(dst, m)
	} else {
		own, err = v.(encoding.BinaryMarshaler).MarshalBinary()
	}
	if err != nil {
		return dst, fmt.Errorf("marshal %T: %w", v, err)
	}
	return append(appendUvarint(dst, uint64(len(own))), own...), nil
}

var errLessAppended = errors.New("it returned less than it was given")

// appendAppended lets the value append itself where it belongs, after one byte for
// its length, and moves it if the length needs more.
func appendAppended(dst []byte, m encoding.BinaryAppender) ([]byte, error) {
	begin := len(dst)
	out, err := m.AppendBinary(append(dst, 0))
	if err == nil && len(out) <= begin {
		err = errLessAppended
	}
	if err != nil {
		return dst, fmt.Errorf("%T.AppendBinary: %w", m, err)
	}
	n := len(out) - begin - 1
	if n < 0x80 {
		out[begin] = byte(n)
		return out, nil
	}
	var length [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(length[:], uint64(n))
	out = append(out, length[1:k]...)
	copy(out[begin+k:], out[begin+1:begin+1+n])
	copy(out[begin:], length[:k])
	return out, nil
}

// marshaled hands what appendMarshaled wrote to the value's own method.
func (d *decoder) marshaled(pr *program, p pointer, own []byte) error {
	v := valueAt(pr.typ, p).Addr().Interface()
	var err error
	if pr.op == opMarshaler {
		err = v.(encoding.BinaryUnmarshaler).UnmarshalBinary(own)
	} else {
		err = v.(encoding.TextUnmarshaler).UnmarshalText(own)
	}
	if err != nil {
		return fmt.Errorf("%w: unmarshal %T: %w", ErrMalformed, v, err)
	}
	return nil
}
