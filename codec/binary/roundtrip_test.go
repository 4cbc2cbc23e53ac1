package binary_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/codec/binary"
)

var bothOrders = map[string]*binary.Options{"plain": nil, "sorted maps": {SortMaps: true}}

// checkRoundTrip encodes v, a pointer, and decodes it: into a zero variable, into
// one that holds something else, as a value in an interface.
func checkRoundTrip(t *rapid.T, r *binary.Registry, v, other reflect.Value) {
	buf, err := r.Append([]byte("kept"), v.Interface())
	if err != nil || !bytes.HasPrefix(buf, []byte("kept")) {
		t.Fatalf("Append = %x, %v", buf, err)
	}
	src := bytes.Clone(buf[4:])
	for _, to := range []reflect.Value{reflect.New(v.Type().Elem()), other} {
		if err := r.Decode(src, to.Interface()); err != nil {
			t.Fatalf("Decode(%x): %v", src, err)
		}
		for i := range src {
			src[i] ^= 0xff // the value must not share its memory
		}
		if diff := cmp.Diff(v.Interface(), to.Interface(), same...); diff != "" {
			t.Fatalf("round trip of %x (-in +out):\n%s", buf[4:], diff)
		}
		copy(src, buf[4:])
	}
	if v.Type().Elem().Kind() == reflect.Interface {
		return // by value it would be what the interface holds
	}
	again, err := r.Append(nil, v.Elem().Interface())
	if err != nil || len(again) != len(src) {
		t.Fatalf("as a value: %x, %v; want %x", again, err, src)
	}
}

func TestRoundTrip(t *testing.T) {
	for name, o := range bothOrders {
		t.Run(name, func(t *testing.T) {
			r := registry(t, o)
			rapid.Check(t, func(t *rapid.T) {
				in, other := new(everything), new(everything)
				fill(t, reflect.ValueOf(in).Elem(), 4)
				fill(t, reflect.ValueOf(other).Elem(), 4)
				checkRoundTrip(t, r, reflect.ValueOf(in), reflect.ValueOf(other))
			})
		})
	}
}

func TestRoundTripOfTypesMadeUp(t *testing.T) {
	for name, o := range bothOrders {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := binary.New(o)
				for _, err := range []error{
					r.Register("leaf", leaf{}), r.Register("*leaf", (*leaf)(nil)), r.Register("lone", lone{}),
					r.Register("failure", failure{}), r.Register("pair", pair{}), r.Register("tree", (*tree)(nil)),
				} {
					if err != nil {
						t.Fatal(err)
					}
				}
				typ := drawType(t, rapid.IntRange(0, 3).Draw(t, "depth"))
				in, other := reflect.New(typ), reflect.New(typ)
				fill(t, in.Elem(), 4)
				fill(t, other.Elem(), 4)
				checkRoundTrip(t, r, in, other)
			})
		})
	}
}

// Equal values have equal bytes where maps are sorted, however they were built.
func TestSortedMapsAreCanonical(t *testing.T) {
	r := registry(t, &binary.Options{SortMaps: true})
	rapid.Check(t, func(t *rapid.T) {
		in := new(everything)
		fill(t, reflect.ValueOf(in).Elem(), 4)
		want, err := r.Append(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		var out everything
		if err := r.Decode(want, &out); err != nil {
			t.Fatal(err)
		}
		got, err := r.Append(nil, &out)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("encoded again: %x, %v; want %x", got, err, want)
		}
	})
}

// A coder writes and reads what its registry does.
func TestCoder(t *testing.T) {
	r := registry(t, &binary.Options{SortMaps: true})
	c, err := binary.Of[everything](r)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		in, out := new(everything), new(everything)
		fill(t, reflect.ValueOf(in).Elem(), 4)
		want, err := r.Append(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Append(nil, in)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%x, %v; want %x", got, err, want)
		}
		if err := c.Decode(got, out); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(in, out, same...); diff != "" {
			t.Fatalf("round trip (-in +out):\n%s", diff)
		}
	})
	if _, err := c.Append(nil, nil); err == nil {
		t.Error("nil is appended")
	}
	if err := c.Decode([]byte{0x15, 0}, nil); err == nil {
		t.Error("nil is decoded into")
	}
	if _, err := binary.Of[chan int](r); err == nil {
		t.Error("a channel has a coder")
	}
}

// Every prefix of an encoding is refused, and so is what goes on after it.
func TestTruncated(t *testing.T) {
	r := registry(t, nil)
	rapid.Check(t, func(t *rapid.T) {
		in := new(everything)
		fill(t, reflect.ValueOf(in).Elem(), 3)
		buf, err := r.Append(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			n := rapid.IntRange(0, len(buf)-1).Draw(t, "cut")
			if r.Decode(buf[:n], new(everything)) == nil {
				t.Fatalf("%x decodes without its last %d bytes", buf, len(buf)-n)
			}
		}
		if r.Decode(append(buf, 0), new(everything)) == nil {
			t.Fatalf("%x decodes with a byte more", buf)
		}
	})
}

// Entries of maps are copied where the standard library does not show their places.
func TestMapsByReflection(t *testing.T) {
	if !binary.HasCursor() {
		t.Error("entries are not found in the iterator of package reflect: encoding maps is slow")
	}
	binary.HideMaps(t)
	TestRoundTrip(t)
	TestRoundTripOfTypesMadeUp(t)
}

// Decoding the same message again into the same variable allocates nothing but
// what maps with other keys than strings need.
func TestDecodeAgainWithoutGarbage(t *testing.T) {
	type reused struct {
		Name  string
		Data  []byte
		Leafs []leaf
		Ptr   *leaf
		Tags  []string
		Map   map[string]string
		Items map[string]leaf
	}
	r := registry(t, nil)
	in := reused{"name", []byte("data"), []leaf{{1, 2, "x"}, {}}, &leaf{S: "p"}, []string{"a", "b"}, nil, nil}
	buf, err := r.Append(nil, &in)
	if err != nil {
		t.Fatal(err)
	}
	var out reused
	if n := testing.AllocsPerRun(100, func() { err = r.Decode(buf, &out) }); n != 0 || err != nil {
		t.Errorf("%v allocations, %v; want none", n, err)
	}
	in.Map, in.Items = map[string]string{"k": "v"}, map[string]leaf{"l": {}}
	if buf, err = r.Append(nil, &in); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { err = r.Decode(buf, &out) }); n > 1 && !poolsForget || err != nil {
		t.Errorf("with maps: %v allocations, %v; want one, for strings", n, err)
	}
	if diff := cmp.Diff(in, out); diff != "" {
		t.Error(diff)
	}
}

// What a shorter list cut off does not come back when the list grows again.
func TestUnencodedFieldsDoNotComeBack(t *testing.T) {
	type entry struct {
		A    int
		Note string `bin:"-"`
	}
	r := binary.New(nil)
	two, err := r.Append(nil, []entry{{A: 1}, {A: 2}})
	if err != nil {
		t.Fatal(err)
	}
	list := []entry{{9, "first"}, {9, "second"}}[:1]
	if err := r.Decode(two, &list); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]entry{{1, "first"}, {2, ""}}, list); diff != "" {
		t.Error(diff)
	}
}
