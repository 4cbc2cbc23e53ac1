package binary

import (
	"reflect"
	"unsafe"
)

// This is the only file of the package that imports unsafe. A program reads and
// writes fields at their addresses instead of through reflect.Value, which costs
// several times as much. Four rules keep that sound:
//
//   - a pointer comes from a pointer that the caller passed, from package reflect
//     or from a field, element or pointer inside of those, and never from a number;
//   - its type is the one that the program was compiled from, so offsets and sizes
//     are those of reflect.StructField and reflect.Type;
//   - memory that holds pointers is written through types that hold pointers, so
//     the garbage collector sees every write;
//   - no decoded value shares memory with the input.
//
// The race detector turns on the compiler's own pointer checks; the tests run with it.

// pointer is the address of a value whose type a program knows.
type pointer = unsafe.Pointer

// at returns the value at p, which must be of type T or have its layout.
func at[T any](p pointer) *T { return (*T)(p) }

// offset returns the address n bytes after p, in the same value.
func offset(p pointer, n uintptr) pointer { return unsafe.Add(p, n) }

// sliceHeader is the layout of every slice.
type sliceHeader struct {
	data     pointer
	len, cap int
}

// header returns the header of the slice at p, whatever its elements.
func header(p pointer) *sliceHeader { return (*sliceHeader)(p) }

// valueAt returns the value of type t at p, which can be set.
func valueAt(t reflect.Type, p pointer) reflect.Value { return reflect.NewAt(t, p).Elem() }

// bytesAt returns the array of n bytes at p as a slice of the same memory.
func bytesAt(p pointer, n int) []byte { return unsafe.Slice((*byte)(p), n) }

// emptyInterface is the layout of an any: a word for the type, and either the
// address of a value that never changes or, for types that are pointers, the value.
type emptyInterface struct{ typ, data pointer }

// typeWord returns the word that an any holding a value of the same type as v
// begins with. It identifies the type.
func typeWord(v any) pointer { return (*emptyInterface)(unsafe.Pointer(&v)).typ }

// typeNumber returns the type word of v as a number, to compare and to hash.
func typeNumber(v any) uintptr { return uintptr(typeWord(v)) }

// dataWord returns the second word of v.
func dataWord(v any) pointer { return (*emptyInterface)(unsafe.Pointer(&v)).data }

// anyOf returns an any that holds data as a value of the type with that word.
func anyOf(word, data pointer) (v any) {
	*(*emptyInterface)(unsafe.Pointer(&v)) = emptyInterface{word, data}
	return v
}

// cursor is where a reflect.MapIter keeps the addresses of its key and element.
// Reading them saves two copies of each entry. It is looked up by name: if the
// standard library changes, found is false and entries are copied.
var cursor = func() (c struct {
	key, elem uintptr
	found     bool
}) {
	iter, ok := reflect.TypeFor[reflect.MapIter]().FieldByName("hiter")
	if !ok || iter.Type.Kind() != reflect.Struct {
		return c
	}
	key, hasKey := iter.Type.FieldByName("key")
	elem, hasElem := iter.Type.FieldByName("elem")
	c.found = hasKey && hasElem && key.Type.Kind() == reflect.UnsafePointer && elem.Type.Kind() == reflect.UnsafePointer
	c.key, c.elem = iter.Offset+key.Offset, iter.Offset+elem.Offset
	return c
}()

// current returns the addresses of the key and the element that it stands on, in
// the map itself: they may be read until the iterator moves, and not written.
func current(it *reflect.MapIter) (key, elem pointer) {
	p := pointer(it)
	return *(*pointer)(offset(p, cursor.key)), *(*pointer)(offset(p, cursor.elem))
}

// room is the free memory of a buffer, to write to without looking at its end:
// the caller has made sure that there is enough.
type room struct{ start pointer }

func roomOf(b []byte) room { return room{pointer(unsafe.SliceData(b))} }

// at8 returns the eight bytes from n on, at which up to eight may be written.
func (r room) at8(n int) *[8]byte { return (*[8]byte)(unsafe.Add(r.start, n)) }

func (r room) at4(n int) *[4]byte { return (*[4]byte)(unsafe.Add(r.start, n)) }

// put writes one byte at n.
func (r room) put(n int, b byte) { *(*byte)(unsafe.Add(r.start, n)) = b }

// puts16 writes a string of 8 to 16 bytes at n: two pieces that may overlap are
// cheaper than what copies any number of bytes.
func (r room) puts16(n int, s string) {
	from, k := pointer(unsafe.StringData(s)), len(s)-8
	first, last := *(*[8]byte)(from), *(*[8]byte)(unsafe.Add(from, k))
	*r.at8(n), *r.at8(n + k) = first, last
}

// puts8 writes a string of 4 to 8 bytes at n.
func (r room) puts8(n int, s string) {
	from, k := pointer(unsafe.StringData(s)), len(s)-4
	first, last := *(*[4]byte)(from), *(*[4]byte)(unsafe.Add(from, k))
	*r.at4(n), *r.at4(n + k) = first, last
}
