package binary_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/codec/binary"
)

// Types without an encoding are refused with an error that says why.
func TestTypesWithoutEncoding(t *testing.T) {
	type inner struct{ A int }
	for _, c := range []struct {
		value any // a pointer
		says  string
	}{
		{new(chan int), "chan"},
		{new(func()), "func"},
		{new(uintptr), "uintptr"},
		{new(**int), "can be nil itself"},
		{new(*[]int), "can be nil itself"},
		{new(map[any]int), "different keys"},
		{new(map[*int]int), "different keys"},
		{new(map[[2]any]int), "different keys"},
		{new(map[struct {
			A int
			B int `bin:"-"`
		}]int), "different keys"},
		{new(map[struct{ A, b int }]int), "different keys"},
		{new(map[time.Time]int), "different keys"},
		{new(struct{ a int }), "no exported field"},
		{new(struct {
			A int
			b int `bin:"3"`
		}), "b is not exported"},
		{new(struct{ inner }), "no exported field"},
		{new(struct {
			A int
			inner
		}), "inner is not exported"},
		{new(struct {
			A int `bin:"1"`
			B int `bin:"1"`
		}), "A and B have the same number 1"},
		{new(struct {
			A int `bin:"0"`
		}), `bin:"0"`},
		{new(struct {
			A int `bin:"262144"`
		}), `bin:"262144"`},
		{new(struct {
			A int `bin:"one"`
		}), `bin:"one"`},
		{new(struct{ A []map[string]chan int }), ".A: "},
	} {
		r := binary.New(nil)
		_, encode := r.Append(nil, c.value)
		for _, err := range []error{encode, r.Decode([]byte{0x15, 0}, c.value)} {
			var e *codec.Error
			if !errors.Is(err, binary.ErrType) || !errors.As(err, &e) || e.Codec != "binary" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%T: %v, want an ErrType that says %q", c.value, err, c.says)
			}
		}
	}
	if _, err := binary.New(nil).Append(nil, nil); !errors.Is(err, binary.ErrType) {
		t.Errorf("nil: %v", err)
	}
}

// A refused type leaves nothing behind: what it consists of is still usable.
func TestRefusedTypeLeavesNothingBehind(t *testing.T) {
	type part struct{ A int }
	type whole struct {
		P []part
		C chan int
	}
	r := binary.New(nil)
	for range 2 {
		if _, err := r.Append(nil, &whole{}); err == nil {
			t.Error("a channel is encoded")
		}
		buf, err := r.Append(nil, []part{{1}})
		if err != nil || len(buf) != 8 {
			t.Errorf("%x, %v", buf, err)
		}
	}
}

type brokenMarshaler struct{ n int }

var errBroken = errors.New("broken")

func (b brokenMarshaler) AppendBinary(dst []byte) ([]byte, error) {
	switch b.n {
	case 1:
		return nil, errBroken
	case 2:
		return nil, nil
	}
	return append(dst, make([]byte, b.n)...), nil
}

func (b *brokenMarshaler) UnmarshalBinary(src []byte) error {
	if b.n = len(src); b.n == 3 {
		return errBroken
	}
	return nil
}

// Methods append in place whatever their length, and their errors are passed on.
func TestMarshalingMethods(t *testing.T) {
	r := binary.New(nil)
	for _, n := range []int{0, 127, 128, 16_383, 16_384} {
		buf, err := r.Append([]byte("kept"), []brokenMarshaler{{n}, {n}})
		if err != nil {
			t.Fatal(err)
		}
		var out []brokenMarshaler
		if err := r.Decode(buf[4:], &out); err != nil || len(out) != 2 || out[0].n != n || out[1].n != n {
			t.Errorf("%d: %v, %v", n, out, err)
		}
	}
	if _, err := r.Append(nil, brokenMarshaler{1}); !errors.Is(err, errBroken) {
		t.Errorf("%v, want the error of the method", err)
	}
	if _, err := r.Append([]byte("kept"), brokenMarshaler{2}); err == nil {
		t.Error("a method that loses the buffer is believed")
	}
	if err := r.Decode([]byte{0x14, 3, 1, 2, 3}, new(brokenMarshaler)); !errors.Is(err, errBroken) || !errors.Is(err, binary.ErrMalformed) {
		t.Errorf("%v, want the error of the method", err)
	}
}

// half writes itself as bytes and as a text, and reads only the text.
type half struct{ s string }

func (h half) MarshalBinary() ([]byte, error)  { return []byte("bytes " + h.s), nil }
func (h half) MarshalText() ([]byte, error)    { return []byte(h.s), nil }
func (h *half) UnmarshalText(src []byte) error { h.s = string(src); return nil }

func TestTextWithoutUnmarshalBinary(t *testing.T) {
	r := binary.New(nil)
	buf, err := r.Append(nil, []half{{"a"}, {""}})
	if err != nil {
		t.Fatal(err)
	}
	var out []half
	if err := r.Decode(buf, &out); err != nil || len(out) != 2 || out[0].s != "a" || out[1].s != "" {
		t.Errorf("%v, %v", out, err)
	}
}
