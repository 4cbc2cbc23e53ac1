package binary

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// The field numbers. A tag gives any of them; the name of a field without a tag
// gives one from firstDerived on, so the usual small tags never meet one.
const (
	MaxFieldNumber = 1<<18 - 1
	firstDerived   = 1 << 12
	tagName        = "bin"
)

// compiler makes the programs of a type and of all types that it consists of.
// They are published together, when the last one is complete.
type compiler struct {
	reg   *Registry
	known map[reflect.Type]*program
	fresh map[reflect.Type]*program
}

var (
	timeType       = reflect.TypeFor[time.Time]()
	stringsType    = reflect.TypeFor[[]string]()
	stringMapType  = reflect.TypeFor[map[string]string]()
	marshaler      = reflect.TypeFor[encoding.BinaryMarshaler]()
	appender       = reflect.TypeFor[encoding.BinaryAppender]()
	unmarshaler    = reflect.TypeFor[encoding.BinaryUnmarshaler]()
	textMarshaler  = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshal  = reflect.TypeFor[encoding.TextUnmarshaler]()
	scalarPrograms = map[reflect.Kind]struct {
		op   opcode
		kind kind
	}{
		reflect.Bool: {opBool, kindUint},
		reflect.Int8: {opInt8, kindInt}, reflect.Int16: {opInt16, kindInt},
		reflect.Int32: {opInt32, kindInt}, reflect.Int64: {opInt64, kindInt},
		reflect.Uint8: {opUint8, kindUint}, reflect.Uint16: {opUint16, kindUint},
		reflect.Uint32: {opUint32, kindUint}, reflect.Uint64: {opUint64, kindUint},
		reflect.Float32: {opFloat32, kindFixed32}, reflect.Float64: {opFloat64, kindFixed64},
		reflect.Complex64: {opComplex64, kindBytes}, reflect.Complex128: {opComplex128, kindBytes},
		reflect.String: {opString, kindBytes}, reflect.Interface: {opInterface, kindTyped},
	}
)

// classify says how values of t are written, without looking at what they consist of.
func classify(t reflect.Type) (opcode, kind, error) {
	if t == timeType {
		return opTime, kindStruct, nil
	}
	if op, ok := classifyMethods(t); ok {
		return op, kindBytes, nil
	}
	if s, ok := scalarPrograms[t.Kind()]; ok {
		return s.op, s.kind, nil
	}
	switch t.Kind() {
	case reflect.Int:
		return opInt32 + opcode(t.Size()/8), kindInt, nil
	case reflect.Uint:
		return opUint32 + opcode(t.Size()/8), kindUint, nil
	case reflect.Slice:
		if isByte(t.Elem()) {
			return opBytes, kindBytes, nil
		}
		if t.ConvertibleTo(stringsType) {
			return opStrings, kindContainer, nil
		}
		return opSlice, kindContainer, nil
	case reflect.Array:
		if isByte(t.Elem()) {
			return opByteArray, kindBytes, nil
		}
		return opArray, kindContainer, nil
	case reflect.Map:
		if t.ConvertibleTo(stringMapType) {
			return opStringMap, kindContainer, nil
		}
		return opMap, kindContainer, nil
	case reflect.Struct:
		return opStruct, kindStruct, nil
	case reflect.Pointer:
		switch t.Elem().Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			return 0, 0, noEncoding("%s points to a type that can be nil itself, and two kinds of nil cannot be told apart", t)
		}
		_, k, err := classify(t.Elem())
		return opPointer, k, err
	}
	return 0, 0, noEncoding("%s is a %s", t, t.Kind())
}

// classifyMethods finds types that encode themselves.
func classifyMethods(t reflect.Type) (opcode, bool) {
	if t.Kind() == reflect.Interface || t.Kind() == reflect.Pointer {
		return 0, false
	}
	to := reflect.PointerTo(t)
	if to.Implements(unmarshaler) && (to.Implements(marshaler) || to.Implements(appender)) {
		return opMarshaler, true
	}
	return opText, opaque(t) && to.Implements(textMarshaler) && to.Implements(textUnmarshal)
}

func isByte(t reflect.Type) bool {
	_, methods := classifyMethods(t)
	return t.Kind() == reflect.Uint8 && !methods
}

// opaque reports whether t is a struct of which nothing is exported.
func opaque(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || t.NumField() == 0 {
		return false
	}
	for i := range t.NumField() {
		if t.Field(i).IsExported() {
			return false
		}
	}
	return true
}

func (c *compiler) compile(t reflect.Type) (*program, error) {
	if pr := c.known[t]; pr != nil {
		return pr, nil
	}
	if pr := c.fresh[t]; pr != nil {
		return pr, nil // perhaps incomplete: a type that contains itself
	}
	op, k, err := classify(t)
	if err != nil {
		return nil, err
	}
	pr := &program{op: op, kind: k, typ: t, size: t.Size(), reg: c.reg, quick: c.reg.quick, maxSize: c.reg.opts.MaxSize}
	c.fresh[t] = pr
	switch op {
	case opBytes:
		pr.nilable = true
	case opByteArray:
		pr.length = t.Len()
	case opStruct:
		err = c.compileStruct(pr)
	case opSlice, opStrings, opPointer, opArray, opMap, opStringMap:
		err = c.compileContainer(pr)
	}
	return pr, err
}

func (c *compiler) compileContainer(pr *program) (err error) {
	pr.nilable = pr.op != opArray // first, because a type that contains itself asks while it is incomplete
	if pr.op == opArray {
		pr.length = pr.typ.Len()
	}
	if pr.elem, err = c.compile(pr.typ.Elem()); err != nil {
		return err
	}
	keyKind := byte(noKey >> 4)
	if pr.op == opMap || pr.op == opStringMap {
		if pr.key, err = c.compile(pr.typ.Key()); err != nil {
			return err
		}
		if !keyable(pr.typ.Key(), pr.key.op) {
			return noEncoding("two different keys of %s could have the same encoding", pr.typ)
		}
		keyKind = byte(pr.key.kind)
		pr.setCosts()
	}
	pr.kinds = keyKind<<4 | byte(pr.elem.kind)
	if pr.elem.nilable {
		pr.kinds |= flagPresent
	}
	return nil
}

// keyable reports whether values of t are equal exactly if their encodings are.
func keyable(t reflect.Type, op opcode) bool {
	if op == opMarshaler || op == opText {
		return true // that is up to the methods
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Chan:
		return false
	case reflect.Array:
		op, _, err := classify(t.Elem())
		return err == nil && keyable(t.Elem(), op)
	case reflect.Struct:
		for i := range t.NumField() {
			sf := t.Field(i)
			op, _, err := classify(sf.Type)
			if err != nil || !sf.IsExported() || sf.Tag.Get(tagName) == "-" || !keyable(sf.Type, op) {
				return false
			}
		}
	}
	return true
}

func (c *compiler) compileStruct(pr *program) error {
	if opaque(pr.typ) {
		return noEncoding("%s has no exported field; export one, or implement encoding.BinaryMarshaler and BinaryUnmarshaler", pr.typ)
	}
	for i := range pr.typ.NumField() {
		sf := pr.typ.Field(i)
		tag, tagged := sf.Tag.Lookup(tagName)
		if tag == "-" || !sf.IsExported() && !tagged && !sf.Anonymous {
			continue
		}
		if !sf.IsExported() {
			return noEncoding(`%s.%s is not exported, so it cannot be encoded; tag it bin:"-" to leave it out`, pr.typ, sf.Name)
		}
		number, err := fieldNumber(sf.Name, tag, tagged)
		if err != nil {
			return noEncoding("%s.%s: %w", pr.typ, sf.Name, err)
		}
		fp, err := c.compile(sf.Type)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", pr.typ, sf.Name, err)
		}
		pr.fields = append(pr.fields, newField(number, sf, fp))
	}
	slices.SortFunc(pr.fields, func(a, b field) int { return int(a.number) - int(b.number) })
	for i := 1; i < len(pr.fields); i++ {
		if a, b := pr.fields[i-1], pr.fields[i]; a.number == b.number {
			return noEncoding(`%s: the fields %s and %s have the same number %d; give one of them another with a tag bin:"n"`, pr.typ, a.name, b.name, a.number)
		}
	}
	pr.isFlat = true
	for _, f := range pr.fields {
		pr.isFlat = pr.isFlat && f.tag < 0x80 && flatOps[f.op]
	}
	pr.room = len(pr.fields)*(maxTag+binary.MaxVarintLen64) + flatRoom
	return nil
}

// flatOps are the fields that flat reads.
var flatOps = [opInterface + 1]bool{
	opBool: true, opInt8: true, opInt16: true, opUint8: true, opUint16: true,
	opString: true, opInt32: true, opInt64: true, opUint32: true, opUint64: true, opFloat32: true, opFloat64: true,
}

// maxTag is the room for a tag: one write of four bytes puts any.
const maxTag = 4

func newField(number uint32, sf reflect.StructField, fp *program) field {
	f := field{tag: number<<3 | uint32(fp.kind), op: fp.op, offset: sf.Offset, prog: fp, number: number, name: sf.Name}
	f.varint = fp.kind <= kindInt || fp.op == opString
	var b [8]byte
	f.tagLen = uint8(binary.PutUvarint(b[:], uint64(f.tag)))
	f.tagBytes = binary.LittleEndian.Uint32(b[:])
	return f
}

// fieldNumber returns the number of a field: what its tag says, or a hash of its name.
func fieldNumber(name, tag string, tagged bool) (uint32, error) {
	if tagged {
		n, err := strconv.ParseUint(tag, 10, 32)
		if err != nil || n == 0 || n > MaxFieldNumber {
			return 0, fmt.Errorf(`the tag bin:%q is no number from 1 to %d, nor "-"`, tag, MaxFieldNumber)
		}
		return uint32(n), nil
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	return firstDerived + h.Sum32()%(MaxFieldNumber+1-firstDerived), nil
}

// findTraits sets the traits of the fresh programs. Those of a type that contains
// itself depend on each other, so it goes on until nothing changes.
func (c *compiler) findTraits() {
	for changed := true; changed; {
		changed = false
		for _, pr := range c.fresh {
			if t := pr.findTraits(); t != pr.traits {
				pr.traits, changed = t, true
			}
		}
	}
	for _, pr := range c.fresh {
		if pr.isFlat && pr.traits&hasTexts == 0 { // one string is worth no window
			pr.flatQuick = max(pr.quick, 0)
		}
	}
}

func (pr *program) findTraits() (t traits) {
	switch pr.op {
	case opString:
		t = hasText
	case opMarshaler, opText:
		t = hasMethods | hasReferences | hasUnencoded
	case opTime, opBytes, opPointer:
		t = hasReferences
	case opInterface, opSlice, opStrings, opMap, opStringMap:
		t = hasReferences | hasTexts
	case opArray:
		t = hasTexts
	case opStruct:
		if len(pr.fields) < pr.typ.NumField() {
			t = hasUnencoded
		}
	}
	for i := range pr.fields {
		part := pr.fields[i].prog.traits
		if t&part&hasText != 0 {
			t |= hasTexts
		}
		t |= part
	}
	for _, part := range []*program{pr.elem, pr.key} {
		if part != nil {
			t |= part.traits
		}
	}
	return t
}
