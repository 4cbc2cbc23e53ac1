package binary

import (
	"reflect"
	"sync"
)

// kind is how a value is written, in three bits: enough to skip a value whose
// type the reader does not know. docs/codec.md defines the numbers.
type kind byte

const (
	kindUint      kind = iota // bool, unsigned integers: a varint
	kindInt                   // signed integers: a zigzag varint
	kindFixed32               // float32: four bytes
	kindFixed64               // float64: eight bytes
	kindBytes                 // a length and that many bytes
	kindStruct                // fields, then a zero byte
	kindContainer             // a byte of kinds, a count, elements or entries
	kindTyped                 // a registered name or number, then a message

	kindMask    = 7
	flagNil     = 8    // in a header: the value is nil, and nothing follows
	flagPresent = 8    // in a byte of kinds: each element begins with a byte, 0 for nil
	noKey       = 0xf0 // in a byte of kinds: a list, not a map
	version     = 0x10 // the upper half of a header
)

var kindNames = [...]string{"an unsigned integer", "an integer", "a 32-bit float", "a 64-bit float",
	"bytes or a string", "a struct", "a list or map", "a value of a registered type"}

func (k kind) String() string { return kindNames[k&kindMask] }

// opcode is what a program does. It says more than a kind: the size of an
// integer, and which of several Go types of one kind it is.
type opcode byte

const (
	opBool opcode = iota
	opInt8
	opInt16
	opInt32
	opInt64
	opUint8
	opUint16
	opUint32
	opUint64
	opFloat32
	opFloat64
	opString
	opBytes
	opStruct
	opSlice
	opStrings // []string
	opMap
	opStringMap // map[string]string
	opPointer
	opArray
	opByteArray
	opTime
	opComplex64
	opComplex128
	opMarshaler // encoding.BinaryMarshaler
	opText      // encoding.TextMarshaler of a struct without exported fields
	opInterface
)

// program knows how to read and write the values of one type. It does not change
// after compile.
type program struct {
	op        opcode
	kind      kind
	nilable   bool // slices, maps and pointers: how a value that is nil is written depends on where it is
	kinds     byte // of a list or map: the byte that says what it holds
	traits    traits
	length    int // of an array
	quick     int // see Registry
	flatQuick int // the same, if decode reads the type without a window, else 0
	maxSize   int // of a message
	size      uintptr
	typ       reflect.Type
	elem      *program // of a pointer, slice, array or map
	key       *program // of a map
	slot      uintptr  // of a map: what an entry costs in the map,
	outside   uintptr  // and outside of it

	fields  []field // of a struct, by number
	isFlat  bool    // of a struct: scalars and strings, for flat
	room    int     // of a struct: the bytes of its tags and scalars, and of the lengths of its strings, at most
	reg     *Registry
	entries sync.Pool // *entry: room for a key and an element of a map
}

// traits say what is somewhere in the values of a type, themselves included.
type traits byte

const (
	hasMethods    traits = 1 << iota // methods of the user's, which might change what they encode
	hasReferences                    // memory that a decode into the same place would use again, strings aside
	hasUnencoded                     // fields that a decode leaves as they are
	hasText                          // a string
	hasTexts                         // more than one string, or any number
)

// field is an exported field of a struct.
type field struct {
	tag      uint32 // number<<3 | kind
	tagBytes uint32 // its varint, little-endian
	tagLen   uint8
	varint   bool // the value begins with a varint that structure reads
	op       opcode
	offset   uintptr
	prog     *program
	number   uint32
	name     string
}

// entry is what it takes to walk over a map or to fill it: package reflect reaches
// maps only through values of its own, which are expensive to make.
type entry struct {
	iter      reflect.MapIter
	m         reflect.Value // a variable of the map's type
	key, elem reflect.Value // variables to copy to and from
	mAt       pointer       // their addresses
	keyAt, at pointer
	methods   bool   // see hasMethods: entries are copied before their methods are called
	ends      []span // of the entries written so far, for SortMaps
}

// takeEntry returns an entry whose m is the map at p.
func (pr *program) takeEntry(p pointer) *entry {
	e, ok := pr.entries.Get().(*entry)
	if !ok {
		m, key, elem := reflect.New(pr.typ), reflect.New(pr.key.typ), reflect.New(pr.elem.typ)
		e = &entry{
			m: m.Elem(), key: key.Elem(), elem: elem.Elem(),
			mAt: m.UnsafePointer(), keyAt: key.UnsafePointer(), at: elem.UnsafePointer(),
			methods: pr.traits&hasMethods != 0,
		}
	}
	*at[pointer](e.mAt) = *at[pointer](p)
	return e
}

// putIterated gives back an entry that was used to iterate.
func (pr *program) putIterated(e *entry) {
	e.iter.Reset(reflect.Value{})
	*at[pointer](e.mAt) = nil
	if !cursor.found || e.methods {
		e.key.SetZero()
		e.elem.SetZero()
	}
	pr.entries.Put(e)
}

// putFilled gives back an entry that was decoded into.
func (pr *program) putFilled(e *entry) {
	*at[pointer](e.mAt) = nil
	pr.key.clear(e.keyAt)
	pr.elem.clear(e.at)
	pr.entries.Put(e)
}

// clear forgets what a decode has set at p.
func (pr *program) clear(p pointer) {
	if pr.traits&(hasMethods|hasUnencoded) != 0 {
		valueAt(pr.typ, p).SetZero()
		return
	}
	pr.zero(p)
}

// isNil reports whether the value at p, of a type that can be nil, is nil.
func (pr *program) isNil(p pointer) bool { return *at[pointer](p) == nil }

// zero sets the value at p to its zero value. Fields that are not encoded stay.
func (pr *program) zero(p pointer) {
	switch pr.op {
	case opString:
		*at[string](p) = ""
	case opBool, opInt8, opUint8:
		*at[uint8](p) = 0
	case opInt32, opUint32, opFloat32:
		*at[uint32](p) = 0
	case opInt64, opUint64, opFloat64:
		*at[uint64](p) = 0
	case opPointer, opMap, opStringMap:
		*at[pointer](p) = nil
	case opSlice, opStrings, opBytes:
		*header(p) = sliceHeader{}
	case opStruct:
		for i := range pr.fields {
			f := &pr.fields[i]
			f.prog.zero(offset(p, f.offset))
		}
	default:
		valueAt(pr.typ, p).SetZero()
	}
}
