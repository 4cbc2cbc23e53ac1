package binary_test

import (
	"fmt"
	"io"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/codec/binary"
)

type leaf struct {
	A int8   `bin:"1"`
	B uint16 `bin:"2"`
	S string `bin:"3"`
}

type tree struct {
	Name     string           `bin:"1"`
	Children []*tree          `bin:"2"`
	By       map[string]*tree `bin:"3"`
}

// pair encodes itself, with a pointer receiver.
type pair struct{ x, y uint8 }

func (p *pair) MarshalBinary() ([]byte, error) { return []byte{p.x, p.y}, nil }

func (p *pair) UnmarshalBinary(b []byte) error {
	if len(b) != 2 {
		return fmt.Errorf("a pair has 2 bytes, not %d", len(b))
	}
	p.x, p.y = b[0], b[1]
	return nil
}

// lone is one pointer, which an any holds without an address.
type lone struct{ P *leaf }

// failure is an error with a type that is registered.
type failure struct {
	Code int `bin:"1"`
}

func (f failure) Error() string { return fmt.Sprint("failure ", f.Code) }

type named interface{ Error() string }

type (
	word   string
	words  []word
	labels []string
	dict   map[string]string
)

// everything has a field of each kind of type; some fields have tags.
type everything struct {
	Bool     bool
	I        int
	I8       int8
	I16      int16
	I32      int32
	I64      int64
	U        uint
	U8       uint8
	U16      uint16
	U32      uint32
	U64      uint64
	F32      float32
	F64      float64 `bin:"7"`
	C64      complex64
	C128     complex128
	S        string `bin:"16"`
	B        []byte `bin:"1"`
	BB       [][]byte
	Hash     [5]byte
	Ints     []int
	Floats   []float64
	Bools    []bool
	Strings  []string
	Own      labels
	Words    words
	Array    [3]int16
	Leaf     leaf
	Leaves   []leaf
	Ptr      *leaf
	PtrInt   *int
	PtrAny   *any
	Ptrs     []*leaf
	Map      map[string]string
	Dict     dict
	ByWord   map[word]word
	Deep     map[int16]map[string]leaf
	ByLeaf   map[leaf][]int
	ByArray  map[[2]string]bool
	Tree     tree
	Any      any
	Anys     []any
	Err      error
	Named    named
	Time     time.Time
	Times    []time.Time
	Took     time.Duration
	Pair     pair
	Pairs    map[netip.Addr]pair
	PtrPair  *pair
	Addr     netip.Addr
	Big      big.Int
	PtrBig   *big.Int
	Lone     lone
	Lones    []lone
	Empty    struct{}
	Empties  []struct{}
	Skipped  string `bin:"-"`
	Embedded `bin:"3"`
}

// Embedded is a field of everything by its own name.
type Embedded struct{ X int }

func registry(t testing.TB, o *binary.Options) *binary.Registry {
	t.Helper()
	r := binary.New(o)
	for _, err := range []error{
		r.Register("leaf", leaf{}), r.RegisterNumber(32, "*leaf", (*leaf)(nil)), r.RegisterNumber(900, "lone", lone{}),
		r.Register("failure", failure{}), r.RegisterError("eof", io.EOF),
		r.RegisterNumber(63, "pair", pair{}), r.RegisterNumber(64, "tree", (*tree)(nil)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// same compares exactly what the format keeps: floats by their bits, times by
// their instants and offsets, unregistered errors by their text.
var same = []cmp.Option{
	cmp.AllowUnexported(everything{}, pair{}),
	cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	cmp.Comparer(func(a, b complex64) bool { return sameComplex(complex128(a), complex128(b)) }),
	cmp.Comparer(sameComplex),
	cmp.Comparer(func(a, b error) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b big.Int) bool { return a.Cmp(&b) == 0 }),
	cmp.Comparer(func(a, b time.Time) bool {
		_, east := a.Zone()
		_, also := b.Zone()
		return a.Equal(b) && east == also && a.IsZero() == b.IsZero()
	}),
}

func sameComplex(a, b complex128) bool {
	return math.Float64bits(real(a)) == math.Float64bits(real(b)) && math.Float64bits(imag(a)) == math.Float64bits(imag(b))
}

// fill draws a value of any type that has an encoding. Zero values, nil and empty
// are frequent: those are where a format goes wrong.
func fill(t *rapid.T, v reflect.Value, depth int) {
	if fillSpecial(t, v, depth) || rapid.IntRange(0, 5).Draw(t, "zero") == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int") >> (64 - v.Type().Bits()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint") >> (64 - v.Type().Bits()))
	case reflect.Float32:
		v.SetFloat(float64(rapid.Float32().Draw(t, "float32")))
	case reflect.Float64:
		v.SetFloat(drawFloat(t))
	case reflect.Complex64:
		v.SetComplex(complex128(complex(rapid.Float32().Draw(t, "re"), rapid.Float32().Draw(t, "im"))))
	case reflect.Complex128:
		v.SetComplex(complex(drawFloat(t), drawFloat(t)))
	case reflect.String:
		v.SetString(drawString(t))
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("bin") != "-" {
				fill(t, v.Field(i), depth-1)
			}
		}
	default:
		fillReference(t, v, depth)
	}
}

func fillReference(t *rapid.T, v reflect.Value, depth int) {
	n := 0
	if depth > 0 {
		n = rapid.IntRange(0, 3).Draw(t, "n")
	}
	switch v.Kind() {
	case reflect.Pointer:
		if n > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), depth-1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n+rapid.IntRange(0, 2).Draw(t, "spare")))
		for i := range n {
			fill(t, v.Index(i), depth-1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range n * rapid.SampledFrom([]int{1, 1, 1, 5}).Draw(t, "size") {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, key, depth-1)
			fill(t, elem, depth-1)
			v.SetMapIndex(key, elem)
		}
	}
}

// fillSpecial draws values of the types that are more than their kind.
func fillSpecial(t *rapid.T, v reflect.Value, depth int) bool {
	switch to := v.Addr().Interface().(type) {
	case *any:
		*to = drawAny(t, depth)
	case *error:
		*to = rapid.SampledFrom([]error{nil, io.EOF, failure{7}, failure{}}).Draw(t, "error")
	case *named:
		*to = rapid.SampledFrom([]named{nil, failure{-1}}).Draw(t, "named")
	case *time.Time:
		*to = drawTime(t)
	case *pair:
		*to = pair{rapid.Uint8().Draw(t, "x"), 3}
	case *netip.Addr:
		*to = rapid.SampledFrom([]netip.Addr{{}, netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fe80::1%eth0")}).Draw(t, "addr")
	case *big.Int:
		to.SetUint64(rapid.Uint64().Draw(t, "big"))
	default:
		return false
	}
	return true
}

func drawFloat(t *rapid.T) float64 {
	return rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.Inf(1), math.NaN(), 1.5})).Draw(t, "float")
}

// drawString returns strings around the sizes at which the decoder changes its ways.
func drawString(t *rapid.T) string {
	s := rapid.String().Draw(t, "string")
	if n := rapid.SampledFrom([]int{0, 0, 0, 0, 0, 127, 128, 256, 257, 512, 513, 20_000}).Draw(t, "pad"); n > 0 {
		s = fmt.Sprintf("%-*s", n, s)
	}
	return s
}

func drawTime(t *rapid.T) time.Time {
	at := time.Unix(rapid.Int64Range(-1<<36, 1<<36).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos"))
	east := rapid.SampledFrom([]int{0, 0, 3600, -12_345, 86_399}).Draw(t, "east")
	return rapid.SampledFrom([]time.Time{{}, time.Unix(0, 0).UTC(), at.UTC(), at.In(time.FixedZone("", east))}).Draw(t, "time")
}

func drawAny(t *rapid.T, depth int) any {
	types := []reflect.Type{
		reflect.TypeFor[int](), reflect.TypeFor[string](), reflect.TypeFor[bool](), reflect.TypeFor[[]byte](), reflect.TypeFor[float64](),
		reflect.TypeFor[leaf](), reflect.TypeFor[*leaf](), reflect.TypeFor[pair](), reflect.TypeFor[lone](), reflect.TypeFor[time.Time](),
		reflect.TypeFor[map[string]any](), reflect.TypeFor[[]any](), reflect.TypeFor[*tree](), reflect.TypeFor[failure](), nil,
	}
	typ := types[rapid.IntRange(0, len(types)-1).Draw(t, "type")]
	if typ == nil || depth < 0 {
		return nil
	}
	v := reflect.New(typ).Elem()
	fill(t, v, depth-1)
	return v.Interface()
}

// drawType builds a type that nobody wrote.
func drawType(t *rapid.T, depth int) reflect.Type {
	flat := []reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[int8](), reflect.TypeFor[int32](), reflect.TypeFor[int64](), reflect.TypeFor[uint16](),
		reflect.TypeFor[uint64](), reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](),
		reflect.TypeFor[[3]byte](), reflect.TypeFor[time.Time](), reflect.TypeFor[leaf](), reflect.TypeFor[any](), reflect.TypeFor[pair](),
		reflect.TypeFor[lone](), reflect.TypeFor[map[string]string](),
	}
	if depth == 0 {
		return rapid.SampledFrom(flat).Draw(t, "flat")
	}
	inner := func() reflect.Type { return drawType(t, depth-1) }
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return reflect.SliceOf(inner())
	case 1:
		return reflect.ArrayOf(rapid.IntRange(0, 3).Draw(t, "length"), inner())
	case 2:
		keys := []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[int16](), reflect.TypeFor[leaf](), reflect.TypeFor[[2]bool](), reflect.TypeFor[uint64]()}
		return reflect.MapOf(rapid.SampledFrom(keys).Draw(t, "key"), inner())
	case 3:
		if elem := inner(); elem.Kind() != reflect.Slice && elem.Kind() != reflect.Map && elem.Kind() != reflect.Pointer {
			return reflect.PointerTo(elem)
		}
	}
	return drawStruct(t, depth-1)
}

// drawStruct builds a struct type with numbered fields in any order.
func drawStruct(t *rapid.T, depth int) reflect.Type {
	numbers := rapid.SliceOfNDistinct(rapid.IntRange(1, 40), 0, 6, rapid.ID[int]).Draw(t, "numbers")
	fields := make([]reflect.StructField, len(numbers))
	for i, n := range numbers {
		fields[i] = numbered(n, drawType(t, depth))
	}
	return reflect.StructOf(fields)
}

func numbered(n int, t reflect.Type) reflect.StructField {
	return reflect.StructField{Name: fmt.Sprint("F", n), Type: t, Tag: reflect.StructTag(fmt.Sprintf(`bin:"%d"`, n))}
}
