package binary_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem/codec/binary"
)

// fuzzAlloc is the limit of the registries that fuzzing uses.
const fuzzAlloc = 1 << 20

func addGolden(f *testing.F) {
	r := registry(f, nil)
	for _, g := range golden {
		buf, err := r.Append(nil, g.value)
		if err != nil {
			f.Fatal(err)
		}
		for which := range samples {
			if reflect.TypeOf(samples[which]) == reflect.TypeOf(g.value) {
				f.Add(uint8(which), buf)
			}
		}
	}
	for which := range amplifiers {
		for _, src := range hostile() {
			f.Add(uint8(which), src[:min(len(src), 100)])
		}
	}
}

// samples are the types that fuzzing decodes.
var samples = func() []any {
	all := append(slices.Clone(amplifiers), new(nested), new(itemMaps), new(node), new(orderV1), new(orderV2), new(everything))
	for _, g := range golden {
		all = append(all, g.value)
	}
	return all
}()

// survive decodes src into a new variable of the type of sample. That must not
// panic or exceed the limit; what is accepted must survive another round.
func survive(t *testing.T, r *binary.Registry, src []byte, sample any) {
	to := reflect.New(reflect.TypeOf(sample).Elem())
	input := bytes.Clone(src)
	var err error
	if got := allocated(func() { err = r.Decode(input, to.Interface()) }); got > fuzzAlloc+errorMemory+compileMemory {
		t.Fatalf("%T from %x: %d bytes allocated, limit %d", sample, src, got, fuzzAlloc)
	}
	if !bytes.Equal(input, src) {
		t.Fatalf("%x was changed to %x", src, input)
	}
	if err != nil {
		return
	}
	first, err := r.Append(nil, to.Interface())
	if err != nil {
		t.Fatalf("%T from %x does not encode: %v", sample, src, err)
	}
	again := reflect.New(to.Type().Elem())
	if err := r.Decode(first, again.Interface()); err != nil {
		t.Fatalf("%T from %x, encoded as %x, does not decode: %v", sample, src, first, err)
	}
	second, err := r.Append(nil, again.Interface())
	if err != nil || !bytes.Equal(first, second) {
		t.Fatalf("%T from %x: %x, then %x, %v", sample, src, first, second, err)
	}
}

// compileMemory is what the first decode of a type may cost on top of the value.
const compileMemory = 4 << 20

// FuzzDecode reads any bytes as values of many types.
func FuzzDecode(f *testing.F) {
	addGolden(f)
	r := registry(f, &binary.Options{MaxAlloc: fuzzAlloc, SortMaps: true, MaxDepth: 100})
	f.Fuzz(func(t *testing.T, which uint8, src []byte) {
		survive(t, r, src, samples[int(which)%len(samples)])
	})
}

// FuzzEverything reads any bytes as the fields of one type that has all kinds, over
// what another message has left there.
func FuzzEverything(f *testing.F) {
	r := registry(f, &binary.Options{MaxAlloc: fuzzAlloc, SortMaps: true})
	for _, v := range []*everything{{}, {S: "s", Any: leaf{}, Leaves: []leaf{{}}, Deep: map[int16]map[string]leaf{1: {"k": {}}}}} {
		buf, err := r.Append(nil, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(buf[1:])
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		src = append([]byte{0x15}, src...)
		survive(t, r, src, new(everything))
		var used everything
		if r.Decode(src, &used) == nil {
			want, err := r.Append(nil, &used)
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Decode(src[:len(src)/2], &used) // leaves it half written
			if err := r.Decode(src, &used); err != nil {
				t.Fatalf("%x decodes only once: %v", src, err)
			}
			if got, err := r.Append(nil, &used); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%x over a used variable: %x, %v; want %x", src, got, err, want)
			}
		}
	})
}
