package binary_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/codec/binary"
)

func TestCompatible(t *testing.T) {
	r := binary.New(nil)
	for _, c := range []struct {
		from, to any
		says     string // "" if they are compatible
	}{
		{orderV1{}, orderV2{}, ""}, {orderV2{}, orderV1{}, ""}, {tree{}, &tree{}, ""}, {tree{}, tree{}, ""},
		{narrow[int8]{}, narrow[uint64]{}, ""}, {narrow[bool]{}, narrow[int]{}, ""}, {narrow[int]{}, narrow[bool]{}, "V: "},
		{narrow[float32]{}, narrow[float64]{}, ""}, {narrow[float32]{}, narrow[int]{}, "V: "},
		{narrow[string]{}, narrow[[]byte]{}, ""}, {narrow[[3]byte]{}, narrow[[4]byte]{}, "V: "}, {narrow[complex64]{}, narrow[complex128]{}, "V: "},
		{narrow[[3]int]{}, narrow[[]int8]{}, ""}, {narrow[[3]int]{}, narrow[[2]int]{}, "an array of 3, want a [2]int"},
		{narrow[[]string]{}, narrow[[]int]{}, "V[]: "}, {narrow[map[string]int]{}, narrow[map[int]int]{}, "V[key]: "},
		{narrow[[]*leaf]{}, narrow[[]leaf]{}, ""}, {narrow[any]{}, narrow[any]{}, ""}, {narrow[any]{}, narrow[int]{}, "written as any"},
		{narrow[leaf]{}, narrow[time.Time]{}, "V: "}, {narrow[narrow[*uint8]]{}, narrow[time.Time]{}, ""}, {narrow[time.Time]{}, narrow[narrow[int]]{}, ""},
		{narrow[pair]{}, narrow[[2]byte]{}, ""}, {narrow[half]{}, narrow[[16]byte]{}, ""}, {narrow[complex64]{}, narrow[[8]byte]{}, ""}, {narrow[complex64]{}, narrow[[9]byte]{}, "V: "},
		{narrow[[16]byte]{}, narrow[complex128]{}, ""}, {narrow[[8]byte]{}, narrow[complex128]{}, "V: "}, {narrow[int]{}, narrow[[8]byte]{}, "V: "}, {narrow[pair]{}, narrow[complex64]{}, ""},
		{narrow[map[string][]narrow[int]]{}, narrow[map[string][]narrow[string]]{}, "V[][].V: "},
	} {
		written, err := r.Schema(c.from)
		if err != nil {
			t.Fatal(err)
		}
		err = r.Compatible(written, c.to)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, binary.ErrMismatch) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%T to %T: %v, want %q", c.from, c.to, err, c.says)
		}
	}
	for _, s := range []string{"", "{", "{1:int}", "{1:int8", "{1:int8,2:int8}", "^1", "[]", "[]^3", "map[string", "[x]int8", "int8 ", "bytes-1", "{99999999999:int8}", strings.Repeat("*", 2000) + "int8"} {
		if err := r.Compatible(s, leaf{}); err == nil {
			t.Errorf("%q is a schema", s)
		}
	}
	if r.Compatible("int8", nil) == nil || r.Compatible("int8", make(chan int)) == nil {
		t.Error("no type is compatible")
	}
}

// Every schema is understood, and a type is compatible with itself.
func TestSchemasOfTypesMadeUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := binary.New(nil)
		v := reflect.Zero(drawType(t, 3)).Interface()
		if v == nil {
			return
		}
		written, err := r.Schema(v)
		if err == nil {
			err = r.Compatible(written, v)
		}
		if err != nil {
			t.Fatalf("%T, %s: %v", v, written, err)
		}
	})
}

func FuzzCompatible(f *testing.F) {
	r := registry(f, nil)
	for _, v := range []any{tree{}, orderV1{}, everything{}, [2]any{}} {
		s, err := r.Schema(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, s string) {
		for _, v := range []any{tree{}, orderV1{}, everything{}} {
			_ = r.Compatible(s, v) // must not panic
		}
	})
}
