package binary_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/codec/binary"
)

// way is one way of using the codec at one shape, in which buffers are kept.
type way struct {
	name   string
	encode func(buf []byte) ([]byte, error) // appends to buf, which is empty
	decode func(src []byte) error           // into a variable that is zeroed first
	result func() any                       // the variable
}

func newShape[T any](name string, value T) shape {
	return shape{name, value, []way{byCoder(value), byRegistry(value), byAny(value)}}
}

// byCoder knows the type where the program is compiled, as generated code does.
func byCoder[T any](value T) way {
	c, failed := binary.Of[T](binary.New(nil))
	v, out := &value, new(T)
	return way{"binary",
		func(buf []byte) ([]byte, error) { return c.Append(buf, v) },
		func(src []byte) error {
			*out = *new(T)
			return c.Decode(src, out)
		},
		func() any { return resultOr(*out, failed) },
	}
}

func resultOr(v any, failed error) any {
	if failed != nil {
		return failed
	}
	return v
}

// byRegistry is the same through codec.Codec, as views use it.
func byRegistry[T any](value T) way {
	var c codec.Codec = binary.New(nil)
	v, out := &value, new(T)
	return way{"binary-codec",
		func(buf []byte) ([]byte, error) { return c.Append(buf, v) },
		func(src []byte) error {
			*out = *new(T)
			return c.Decode(src, out)
		},
		func() any { return *out },
	}
}

// byAny writes the type into the message, as actors do that take any.
func byAny[T any](value T) way {
	r := binary.New(nil)
	if r.NameOf(value) == "" {
		if err := r.RegisterNumber(40, "shape", value); err != nil {
			return way{name: err.Error()}
		}
	}
	var v, out any = value, nil
	return way{"binary-any",
		func(buf []byte) ([]byte, error) { return r.AppendAny(buf, v) },
		func(src []byte) (err error) {
			out, err = r.DecodeAny(src)
			return err
		},
		func() any { return out },
	}
}

// TestShapes: every way gives back the value that it was given.
func TestShapes(t *testing.T) {
	for _, s := range shapes() {
		for _, w := range s.ways {
			for range 2 { // what is kept from the first time must not matter
				buf, err := w.encode(nil)
				if err == nil {
					err = w.decode(slices.Clone(buf))
				}
				if err != nil {
					t.Fatalf("%s, %s: %v", s.name, w.name, err)
				}
				if diff := cmp.Diff(s.value, w.result()); diff != "" {
					t.Fatalf("%s, %s (-want +got):\n%s", s.name, w.name, diff)
				}
			}
		}
	}
}

// decodeAllocations are how many allocations a decode of each shape may need: one
// for all strings, and what lists and maps take.
var decodeAllocations = map[string]float64{
	"String": 1, "PID": 1, "ProcessID": 1, "Simple": 1, "Complex": 4, "Nested": 11, "Map": 3, "NestedMap": 7,
}

func TestAllocations(t *testing.T) {
	for _, s := range shapes() {
		for _, w := range s.ways[:2] {
			src, err := w.encode(make([]byte, 0, 1<<10))
			if err != nil {
				t.Fatal(err)
			}
			src = slices.Clone(src)
			buf := make([]byte, 0, 1<<10)
			encode := func() { buf, err = w.encode(buf[:0]) }
			decode := func() { err = w.decode(src) }
			if n := testing.AllocsPerRun(100, encode); n != 0 && !poolsForget || err != nil {
				t.Errorf("%s, %s: an encode makes %v allocations, want none; %v", s.name, w.name, n, err)
			}
			n := testing.AllocsPerRun(100, decode)
			if n > decodeAllocations[s.name] && !poolsForget || err != nil {
				t.Errorf("%s, %s: a decode makes %v allocations, at most %v are allowed; %v", s.name, w.name, n, decodeAllocations[s.name], err)
			}
			if !reflect.DeepEqual(w.result(), s.value) {
				t.Errorf("%s, %s: decoded to %v", s.name, w.name, w.result())
			}
			t.Logf("%s, %s: %v allocations", s.name, w.name, n)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, s := range shapes() {
		for _, w := range s.ways {
			b.Run(s.name+"/"+w.name, func(b *testing.B) {
				buf := make([]byte, 0, 1<<10)
				var out []byte
				var err error
				b.ReportAllocs()
				for b.Loop() {
					if out, err = w.encode(buf); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(out)), "wire-B")
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, s := range shapes() {
		for _, w := range s.ways {
			b.Run(s.name+"/"+w.name, func(b *testing.B) {
				src, err := w.encode(nil)
				if err != nil {
					b.Fatal(err)
				}
				src = slices.Clone(src)
				b.ReportAllocs()
				for b.Loop() {
					if err := w.decode(src); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
