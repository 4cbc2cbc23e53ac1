package binary

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Schema describes how values of the type of v are written, as docs/codec.md
// defines it: field numbers and kinds, no Go names. Types with equal schemas read
// each other's values; so do many others.
func (r *Registry) Schema(v any) (string, error) {
	t := reflect.TypeOf(v)
	if t == nil {
		return "", encodeError(v, noEncoding("nil has no type"))
	}
	pr, err := r.program(t)
	if err != nil {
		return "", encodeError(v, err)
	}
	var s strings.Builder
	pr.describe(&s, nil)
	return s.String(), nil
}

// Fingerprint is the first eight bytes of the SHA-256 of the schema, big-endian:
// peers that agree on it need not compare schemas.
func (r *Registry) Fingerprint(v any) (uint64, error) {
	schema, err := r.Schema(v)
	if err != nil {
		return 0, err
	}
	sum := sha256.Sum256([]byte(schema))
	return binary.BigEndian.Uint64(sum[:]), nil
}

var schemaNames = [...]string{
	opBool: "bool", opInt8: "int8", opInt16: "int16", opInt32: "int32", opInt64: "int64",
	opUint8: "uint8", opUint16: "uint16", opUint32: "uint32", opUint64: "uint64",
	opFloat32: "float32", opFloat64: "float64", opString: "string", opBytes: "bytes", opTime: "time",
	opComplex64: "complex64", opComplex128: "complex128", opMarshaler: "marshaled", opText: "text", opInterface: "any",
}

// describe writes the schema of a program below others. One that contains itself
// is written as ^ and the number of types to go up.
func (pr *program) describe(s *strings.Builder, above []*program) {
	if i := slices.Index(above, pr); i >= 0 {
		s.WriteString("^" + strconv.Itoa(len(above)-i))
		return
	}
	above = append(above, pr)
	switch pr.op {
	case opPointer:
		s.WriteByte('*')
		pr.elem.describe(s, above)
	case opSlice, opStrings:
		s.WriteString("[]")
		pr.elem.describe(s, above)
	case opArray:
		fmt.Fprintf(s, "[%d]", pr.length)
		pr.elem.describe(s, above)
	case opByteArray:
		fmt.Fprintf(s, "bytes%d", pr.length)
	case opMap, opStringMap:
		s.WriteString("map[")
		pr.key.describe(s, above)
		s.WriteByte(']')
		pr.elem.describe(s, above)
	case opStruct:
		s.WriteByte('{')
		for i := range pr.fields {
			if i > 0 {
				s.WriteByte(' ')
			}
			fmt.Fprintf(s, "%d:", pr.fields[i].number)
			pr.fields[i].prog.describe(s, above)
		}
		s.WriteByte('}')
	default:
		s.WriteString(schemaNames[pr.op])
	}
}
