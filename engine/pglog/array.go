package pglog

import "encoding/binary"

// Object identifiers of PostgreSQL's types, as elements of arrays.
const (
	oidBytea = 17
	oidInt8  = 20
	oidInt2  = 21
	oidInt4  = 23
	oidText  = 25
)

// array builds an array parameter in PostgreSQL's binary format, without a copy of
// the elements in between:
//
//	dimensions 4 BE = 1, has nulls 4, element type 4, elements 4, lower bound 4 = 1,
//	then each element: length 4 (-1 for null), bytes
type array struct {
	buf []byte
	n   int
	oid uint32
}

const arrayHead = 20

func newArray(oid uint32, elements, bytes int) array {
	return array{buf: make([]byte, arrayHead, arrayHead+4*elements+bytes), oid: oid}
}

func (a *array) add(length int) {
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(int32(length)))
	a.n++
}

func (a *array) int2(v int16) {
	a.add(2)
	a.buf = binary.BigEndian.AppendUint16(a.buf, uint16(v))
}

func (a *array) int4(v int32) {
	a.add(4)
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(v))
}

func (a *array) int8(v int64) {
	a.add(8)
	a.buf = binary.BigEndian.AppendUint64(a.buf, uint64(v))
}

// bytes adds b; nil is null.
func (a *array) bytes(b []byte) {
	if b == nil {
		a.add(-1)
		return
	}
	a.add(len(b))
	a.buf = append(a.buf, b...)
}

func (a *array) text(s string) {
	a.add(len(s))
	a.buf = append(a.buf, s...)
}

// appended adds what encode appends.
func (a *array) appended(encode func(dst []byte) []byte) {
	at := len(a.buf)
	a.add(0)
	a.buf = encode(a.buf)
	binary.BigEndian.PutUint32(a.buf[at:], uint32(len(a.buf)-at-4))
}

// param returns the parameter: null if there are no elements.
func (a *array) param() []byte {
	if a.n == 0 {
		return nil
	}
	binary.BigEndian.PutUint32(a.buf[0:], 1)
	binary.BigEndian.PutUint32(a.buf[4:], 1) // there may be nulls
	binary.BigEndian.PutUint32(a.buf[8:], a.oid)
	binary.BigEndian.PutUint32(a.buf[12:], uint32(a.n))
	binary.BigEndian.PutUint32(a.buf[16:], 1)
	return a.buf
}

func int4s(list []int32) []byte {
	a := newArray(oidInt4, len(list), 4*len(list))
	for _, v := range list {
		a.int4(v)
	}
	return a.param()
}

func int8s(list []int64) []byte {
	a := newArray(oidInt8, len(list), 8*len(list))
	for _, v := range list {
		a.int8(v)
	}
	return a.param()
}

// wrap returns an array with one element, which has been encoded; nil is null.
func wrap(oid uint32, element []byte) []byte {
	a := newArray(oid, 1, len(element))
	a.bytes(element)
	return a.param()
}
