package binary_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/codec/binary"
)

// allocated returns how many bytes f allocates, at most: other goroutines of the
// test may add some.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// errorMemory is what an error about a value may cost on top of the value.
const errorMemory = 16 << 10

// amplifiers are types whose values take more memory than bytes in the input.
var amplifiers = []any{
	new([]any), new([][]byte), new([][]int), new([]string), new([]map[string]string), new([]map[int8]leaf), new([]map[string][200]byte),
	new([]everything), new([]*everything), new([]*[4096]byte), new([][64]struct{ A, B, C string }), new([]*tree), new(map[uint32]uint8), new(map[string]everything),
	new([]struct{}), new([]*struct{}), new([]map[string]struct{}), new(any),
}

// hostile messages are short ones that ask for much.
func hostile() [][]byte {
	list := func(kinds byte, n int, element ...byte) []byte {
		b := append([]byte{0x16, kinds}, 0, 0, 0)
		b = append(b[:2], byte(n)|0x80, byte(n>>7)|0x80, byte(n>>14))
		return append(b, bytes.Repeat(element, n)...)
	}
	const n = 20_000
	out := [][]byte{
		list(0xf4, n, 0), list(0xfc, n, 1, 0), list(0xfc, n, 0), list(0xf5, n, 0), list(0xfd, n, 1, 0), list(0xfd, n, 0),
		list(0xfe, n, 1, 0xf1, 0), list(0xfe, n, 1, 0x44, 1, 1, 'k', 1, 'v'), list(0xfe, n, 1, 0x41, 1, 0, 0), list(0xfe, n, 1, 0x15, 1, 2, 0),
		list(0xfe, n, 1, 0x45, 1, 1, 'k', 0), list(0xf7, n, 0), list(0xf7, n, 0x07, 0x16, 0xf1, 0), list(0xf7, n, 0x27, 0x16, 0x47, 0),
		list(0xf7, n, 0x41, 0x15, 0), list(0xf6, n, 0xf0, 0), list(0xfe, n, 1, 0x4c, 1, 0, 0), list(0xfe, n, 1, 0x44, 1, 0, 0),
	}
	keys := []byte{0x16, 0x00, 0xa0, 0x9c, 0x01}
	for i := range n {
		keys = append(keys, byte(i)|0x80, byte(i>>7)|0x80, byte(i>>14), 0)
	}
	out = append(out, keys)
	for _, b := range slices.Clone(out) {
		out = append(out, append([]byte{0x17, 37}, b...)) // the same in an any
	}
	return out
}

// A decode allocates no more than the limit, whatever the input asks for.
func TestAllocationLimit(t *testing.T) {
	for _, limit := range []int{1 << 10, 64 << 10, 1 << 20, 8 << 20} {
		r := registry(t, &binary.Options{MaxAlloc: limit})
		refused := 0
		for _, v := range amplifiers {
			for _, src := range hostile() {
				to := reflect.New(reflect.TypeOf(v).Elem()).Interface()
				err := r.Decode(src, to) // compiles
				if errors.Is(err, binary.ErrLimit) {
					refused++
				}
				most := uint64(limit) + errorMemory
				got := most + 1
				for try := 0; got > most && try < 5; try++ { // what others allocate meanwhile is not the same each time
					to = reflect.New(reflect.TypeOf(v).Elem()).Interface()
					got = min(got, allocated(func() { err = r.Decode(src, to) }))
				}
				if got > most {
					t.Errorf("%T from %x...: more than %d bytes allocated; %v", v, src[:10], most, err)
				}
			}
		}
		if refused < 20 {
			t.Errorf("limit %d: only %d of the inputs exceed it: they are not hostile", limit, refused)
		}
	}
}

func TestAllocationLimitOfValues(t *testing.T) {
	const limit = 8 << 10
	generous, strict := registry(t, nil), registry(t, &binary.Options{MaxAlloc: limit})
	if err := strict.Decode([]byte{0x15, 0}, new(everything)); err != nil { // compiles
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		in := new(everything)
		fill(t, reflect.ValueOf(in).Elem(), 5)
		buf, err := generous.Append(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		out := new(everything)
		if got := allocated(func() { err = strict.Decode(buf, out) }); got > limit+errorMemory {
			t.Fatalf("%d bytes allocated, limit %d; %v", got, limit, err)
		}
		if err != nil && !errors.Is(err, binary.ErrLimit) {
			t.Fatal(err)
		}
	})
}

type node struct {
	Next  *node `bin:"1"`
	Other *node `bin:"2"`
	Any   any   `bin:"3"`
	List  []any `bin:"4"`
}

func TestDepthLimit(t *testing.T) {
	r := binary.New(&binary.Options{MaxDepth: 50})
	if err := r.Register("node", (*node)(nil)); err != nil {
		t.Fatal(err)
	}
	chain := func(n int, link func(*node) *node) *node {
		v := new(node)
		for range n - 1 {
			v = link(v)
		}
		return v
	}
	for name, c := range map[string]struct {
		link   func(*node) *node
		levels int // of one link
	}{
		"pointers":   {func(n *node) *node { return &node{Next: n} }, 1},
		"interfaces": {func(n *node) *node { return &node{Any: n} }, 2},
		"lists":      {func(n *node) *node { return &node{List: []any{n}} }, 3},
	} {
		deepest := (50-1)/c.levels + 1
		buf, err := r.Append(nil, chain(deepest, c.link))
		if err == nil {
			err = r.Decode(buf, new(node))
		}
		if err != nil {
			t.Errorf("%s, as deep as allowed: %v", name, err)
		}
		if _, err := r.Append(nil, chain(deepest+1, c.link)); !errors.Is(err, binary.ErrLimit) {
			t.Errorf("%s, too deep: %v, want ErrLimit", name, err)
		}
		lenient := binary.New(nil)
		if err := lenient.Register("node", (*node)(nil)); err != nil {
			t.Fatal(err)
		}
		if buf, err = lenient.Append(nil, chain(deepest+1, c.link)); err != nil {
			t.Fatal(err)
		}
		for _, to := range []any{new(node), new(struct{})} { // read, and skipped
			if err := r.Decode(buf, to); !errors.Is(err, binary.ErrLimit) {
				t.Errorf("%s, too deep, into a %T: %v, want ErrLimit", name, to, err)
			}
		}
	}
	loop := new(node)
	loop.Any = loop
	if _, err := r.Append(nil, loop); !errors.Is(err, binary.ErrLimit) {
		t.Errorf("a value that contains itself: %v", err)
	}
}

func TestSizeLimit(t *testing.T) {
	r := binary.New(&binary.Options{MaxSize: 100})
	for name, v := range map[string]any{
		"string": pointerTo(string(make([]byte, 100))), "bytes": make([]byte, 100), "list": make([]uint8, 100), "struct": &leaf{S: string(make([]byte, 100))},
		"flat struct": &aLongPID, "list of flat structs": []pid{aPID, aLongPID}, "map of flat structs": map[string]pid{"a": aLongPID},
		"list of strings": make([]string, 100), "map": map[string]string{"k": string(make([]byte, 100))},
	} {
		if _, err := r.Append(make([]byte, 1000), v); !errors.Is(err, binary.ErrLimit) {
			t.Errorf("%s: %v, want ErrLimit", name, err)
		}
	}
	if _, err := r.AppendAny(nil, string(make([]byte, 100))); !errors.Is(err, binary.ErrLimit) {
		t.Errorf("in an interface: %v, want ErrLimit", err)
	}
	if buf, err := r.Append(make([]byte, 1000), make([]byte, 98)); err != nil || len(buf) != 1100 {
		t.Errorf("%d bytes, %v, want all that are allowed", len(buf), err)
	}
	src := append([]byte{0x14, 99}, make([]byte, 99)...)
	if err := r.Decode(src, new(string)); !errors.Is(err, binary.ErrLimit) {
		t.Errorf("decode: %v, want ErrLimit", err)
	}
	if _, err := r.DecodeAny(src); !errors.Is(err, binary.ErrLimit) {
		t.Errorf("DecodeAny: %v, want ErrLimit", err)
	}
	// Every level writes the one below twice: 2^100 nodes. The limit ends that.
	wide := new(node)
	for range 100 {
		wide = &node{Next: wide, Other: wide}
	}
	if _, err := r.Append(nil, wide); !errors.Is(err, binary.ErrLimit) {
		t.Errorf("a value that shares its parts: %v, want ErrLimit", err)
	}
	if _, err := binary.New(&binary.Options{MaxSize: math.MaxInt}).Append(make([]byte, 10), 1); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

var aLongPID = pid{Node: string(make([]byte, 100))}

func TestMalformed(t *testing.T) {
	r := registry(t, nil)
	for name, c := range map[string]struct {
		src string
		to  any
	}{
		"nothing":             {"", new(int)},
		"another version":     {"21", new(int)},
		"a varint too long":   {"10ffffffffffffffffff7f", new(uint64)},
		"a varint cut":        {"10ff", new(uint64)},
		"a length too long":   {"1405616263", new(string)},
		"a count too long":    {"16f10501", new([]int)},
		"a float cut":         {"12000000", new(float32)},
		"a double cut":        {"1300000000000000", new(float64)},
		"a key twice":         {"164402016101620161016" + "3", new(map[string]string)},
		"a key twice, slowly": {"16110202020202", new(map[int]int)},
		"no byte of kinds":    {"168001", new([]int)},
		"no byte for nil":     {"16f90102", new([]*int)},
		"fields descending":   {"1511020800", new(struct{})},
		"a field twice":       {"1508020802" + "00", new(leaf)},
		"a field too high":    {"1580808001" + "0200", new(struct{})},
		"no end":              {"150902", new(leaf)},
		"no end at all":       {"15", new(leaf)},
		"a pair of three":     {"1403010203", new(pair)},
		"a second too long":   {"1510" + "8094ebdc03" + "00", new(time.Time)},
		"a day too far east":  {"1519" + "80c60a" + "00", new(time.Time)},
	} {
		var src []byte
		if _, err := fmt.Sscanf(c.src, "%x", &src); err != nil && c.src != "" {
			t.Fatal(name, err)
		}
		err := r.Decode(src, c.to)
		if !errors.Is(err, binary.ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", name, err)
		}
	}
	for _, target := range []any{nil, 7, leaf{}, (*leaf)(nil), map[string]int{}} {
		if err := r.Decode([]byte{0x15, 0}, target); err == nil {
			t.Errorf("decoded into %#v", target)
		}
	}
	if err := r.Decode([]byte{0x1d}, new(leaf)); !errors.Is(err, binary.ErrMismatch) {
		t.Errorf("nil is read into a struct: %v", err)
	}
}

// Many goroutines use types for the first time at the same time.
func TestConcurrentUse(t *testing.T) {
	r := registry(t, nil)
	var all sync.WaitGroup
	for i := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := range 20 {
				typ := reflect.ArrayOf(n, reflect.TypeFor[map[string]leaf]())
				in, out := reflect.New(typ), reflect.New(typ)
				for k := range n {
					in.Elem().Index(k).Set(reflect.ValueOf(map[string]leaf{"k": {A: int8(k)}}))
				}
				buf, err := r.Append(nil, in.Interface())
				if err == nil {
					err = r.Decode(buf, out.Interface())
				}
				if err != nil || !reflect.DeepEqual(in.Elem().Interface(), out.Elem().Interface()) {
					t.Errorf("%s: %v, %v", typ, out, err)
				}
				if err := r.Register(fmt.Sprint(i, "/", n), reflect.New(reflect.ArrayOf(100*i+n, typ)).Elem().Interface()); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
}
