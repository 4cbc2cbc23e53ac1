package binary_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"
	"google.golang.org/protobuf/proto"

	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/codec/binary"
)

// contest is a shape and the codecs that encode and decode it.
type contest struct {
	shape string
	value any
	lanes []lane
}

// lane is one codec at one shape, in the way of using it that costs least:
// buffers, encoders and decoders are kept where the library lets one keep them.
type lane struct {
	codec  string
	encode func(buf []byte) ([]byte, error) // appends to buf, which is empty
	decode func(src []byte) error           // into a variable that is zeroed first
	result func() any                       // the variable
}

func newContest[T any, M message](shape string, value T, m M, from func(M) T, zero func(M)) contest {
	return contest{shape, value, []lane{
		coderLane(value), registryLane(value), anyLane(value),
		vtprotoLane(m, from, zero), protobufLane(m, from),
		gobLane(value), jsonLane(value), msgpackLane(value), cborLane(value),
	}}
}

// coderLane knows the type where the program is compiled, as generated code does.
func coderLane[T any](value T) lane {
	c, failed := binary.Of[T](binary.New(nil))
	v, out := &value, new(T)
	return lane{"binary",
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

// registryLane is the same through codec.Codec, as views use it.
func registryLane[T any](value T) lane {
	var c codec.Codec = binary.New(nil)
	v, out := &value, new(T)
	return lane{"binary-codec",
		func(buf []byte) ([]byte, error) { return c.Append(buf, v) },
		func(src []byte) error {
			*out = *new(T)
			return c.Decode(src, out)
		},
		func() any { return *out },
	}
}

// anyLane writes the type into the message, as actors do that take any.
func anyLane[T any](value T) lane {
	r := binary.New(nil)
	if r.NameOf(value) == "" {
		if err := r.RegisterNumber(40, "shape", value); err != nil {
			return lane{codec: err.Error()}
		}
	}
	var v, out any = value, nil
	return lane{"binary-any",
		func(buf []byte) ([]byte, error) { return r.AppendAny(buf, v) },
		func(src []byte) (err error) {
			out, err = r.DecodeAny(src)
			return err
		},
		func() any { return out },
	}
}

func vtprotoLane[T any, M message](m M, from func(M) T, zero func(M)) lane {
	out := proto.Clone(m).(M)
	return lane{"vtprotobuf",
		func(buf []byte) ([]byte, error) {
			size := m.SizeVT()
			buf = slices.Grow(buf, size)[:size]
			n, err := m.MarshalToSizedBufferVT(buf)
			return buf[:n], err
		},
		func(src []byte) error {
			zero(out)
			return out.UnmarshalVT(src)
		},
		func() any { return from(out) },
	}
}

func protobufLane[T any, M message](m M, from func(M) T) lane {
	out := proto.Clone(m).(M)
	return lane{"protobuf",
		func(buf []byte) ([]byte, error) { return proto.MarshalOptions{}.MarshalAppend(buf, m) },
		func(src []byte) error { return proto.Unmarshal(src, out) },
		func() any { return from(out) },
	}
}

// gobLane keeps an encoder and a decoder, so that the type is described once per
// stream. Its messages are those after the first.
func gobLane[T any](value T) lane {
	var w bytes.Buffer
	enc := gob.NewEncoder(&w)
	v, out := &value, new(T)
	failed := enc.Encode(v)
	var r bytes.Reader
	r.Reset(slices.Clone(w.Bytes()))
	dec := gob.NewDecoder(&r)
	if err := dec.Decode(out); failed == nil {
		failed = err
	}
	return lane{"gob-stream",
		func([]byte) ([]byte, error) {
			w.Reset()
			err := enc.Encode(v)
			return w.Bytes(), err
		},
		func(src []byte) error {
			*out = *new(T)
			r.Reset(src)
			return dec.Decode(out)
		},
		func() any { return resultOr(*out, failed) },
	}
}

func jsonLane[T any](value T) lane {
	v, out := &value, new(T)
	return lane{"json",
		func(buf []byte) ([]byte, error) { return codec.JSON.Append(buf, v) },
		func(src []byte) error {
			*out = *new(T)
			return json.Unmarshal(src, out)
		},
		func() any { return *out },
	}
}

func msgpackLane[T any](value T) lane {
	var w bytes.Buffer
	var r bytes.Reader
	enc, dec := msgpack.NewEncoder(&w), msgpack.NewDecoder(&r)
	v, out := &value, new(T)
	return lane{"msgpack",
		func([]byte) ([]byte, error) {
			w.Reset()
			err := enc.Encode(v)
			return w.Bytes(), err
		},
		func(src []byte) error {
			*out = *new(T)
			r.Reset(src)
			return dec.Decode(out)
		},
		func() any { return *out },
	}
}

func cborLane[T any](value T) lane {
	mode, failed := cbor.EncOptions{}.UserBufferEncMode()
	dec, err := cbor.DecOptions{}.DecMode()
	if failed == nil {
		failed = err
	}
	var w bytes.Buffer
	v, out := &value, new(T)
	return lane{"cbor",
		func([]byte) ([]byte, error) {
			w.Reset()
			err := mode.MarshalToBuffer(v, &w)
			return w.Bytes(), err
		},
		func(src []byte) error {
			*out = *new(T)
			return dec.Unmarshal(src, out)
		},
		func() any { return resultOr(*out, failed) },
	}
}

// Every lane gives back the value that it was given: none wins by doing less.
func TestLanesAgree(t *testing.T) {
	for _, c := range contests() {
		for _, l := range c.lanes {
			for range 2 { // what is kept from the first time must not matter
				buf, err := l.encode(nil)
				if err == nil {
					err = l.decode(slices.Clone(buf))
				}
				if err != nil {
					t.Fatalf("%s, %s: %v", c.shape, l.codec, err)
				}
				if diff := cmp.Diff(c.value, l.result()); diff != "" {
					t.Fatalf("%s, %s (-want +got):\n%s", c.shape, l.codec, diff)
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
	for _, c := range contests() {
		for _, l := range c.lanes[:2] {
			src, err := l.encode(make([]byte, 0, 1<<10))
			if err != nil {
				t.Fatal(err)
			}
			src = slices.Clone(src)
			buf := make([]byte, 0, 1<<10)
			encode := func() { buf, err = l.encode(buf[:0]) }
			decode := func() { err = l.decode(src) }
			if n := testing.AllocsPerRun(100, encode); n != 0 && !poolsForget || err != nil {
				t.Errorf("%s, %s: an encode makes %v allocations, want none; %v", c.shape, l.codec, n, err)
			}
			n := testing.AllocsPerRun(100, decode)
			if n > decodeAllocations[c.shape] && !poolsForget || err != nil {
				t.Errorf("%s, %s: a decode makes %v allocations, at most %v are allowed; %v", c.shape, l.codec, n, decodeAllocations[c.shape], err)
			}
			if !reflect.DeepEqual(l.result(), c.value) {
				t.Errorf("%s, %s: decoded to %v", c.shape, l.codec, l.result())
			}
			t.Logf("%s, %s: %v allocations", c.shape, l.codec, n)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, c := range contests() {
		for _, l := range c.lanes {
			b.Run(c.shape+"/"+l.codec, func(b *testing.B) {
				buf := make([]byte, 0, 1<<10)
				var out []byte
				var err error
				b.ReportAllocs()
				for b.Loop() {
					if out, err = l.encode(buf); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(out)), "wire-B")
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range contests() {
		for _, l := range c.lanes {
			b.Run(c.shape+"/"+l.codec, func(b *testing.B) {
				src, err := l.encode(nil)
				if err != nil {
					b.Fatal(err)
				}
				src = slices.Clone(src)
				b.ReportAllocs()
				for b.Loop() {
					if err := l.decode(src); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
