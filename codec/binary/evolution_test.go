package binary_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/codec/binary"
)

type orderV1 struct {
	ID    string            `bin:"1"`
	Count int8              `bin:"2"`
	Price float32           `bin:"3"`
	Gone  map[int][]leaf    `bin:"4"`
	Ship  leaf              `bin:"5"`
	Notes map[string]string `bin:"6"`
}

// orderV2 has fields in another order, widened, behind a pointer, renamed, added
// and removed.
type orderV2 struct {
	Notes map[string]*string `bin:"6"`
	To    *leaf              `bin:"5"`
	Added []any              `bin:"9"`
	Price float64            `bin:"3"`
	Count int                `bin:"2"`
	Key   []byte             `bin:"1"`
}

func TestVersionsReadEachOther(t *testing.T) {
	r := registry(t, nil)
	v1 := orderV1{"o1", 3, 1.5, map[int][]leaf{1: {{}, {S: "x"}}}, leaf{A: 1}, map[string]string{"a": "b"}}
	v2 := orderV2{map[string]*string{"a": pointerTo("b")}, &leaf{A: 1}, nil, 1.5, 3, []byte("o1")}

	var newer orderV2
	transcode(t, r, &v1, &newer)
	if diff := cmp.Diff(v2, newer); diff != "" {
		t.Errorf("the newer program reads (-want +got):\n%s", diff)
	}
	v2.Added = []any{1, "two", leaf{}, []any{nil}}
	older := orderV1{Gone: map[int][]leaf{}, Ship: leaf{S: "old"}}
	transcode(t, r, &v2, &older)
	v1.Gone = nil
	if diff := cmp.Diff(v1, older); diff != "" {
		t.Errorf("the older program reads (-want +got):\n%s", diff)
	}
}

func transcode(t testing.TB, r *binary.Registry, from, to any) {
	t.Helper()
	buf, err := r.Append(nil, from)
	if err == nil {
		err = r.Decode(buf, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Any two struct types read each other's values: fields that both have keep their
// values, the others are skipped and zero.
func TestStructsWithSomeFieldsInCommon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := binary.New(nil)
		common, left, right := drawStruct(t, 1), drawStruct(t, 2), drawStruct(t, 2)
		from, to := reflect.New(merge(t, common, left, 50)), reflect.New(merge(t, common, right, 5000))
		fillAll(t, from.Elem())
		fillAll(t, to.Elem())
		for _, err := range []error{
			r.Register("leaf", leaf{}), r.Register("*leaf", (*leaf)(nil)), r.Register("lone", lone{}),
			r.Register("failure", failure{}), r.Register("pair", pair{}), r.Register("tree", (*tree)(nil)),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		buf, err := r.Append(nil, from.Interface())
		if err == nil {
			err = r.Decode(buf, to.Interface())
		}
		if err != nil {
			t.Fatalf("%s to %s: %v", from.Type(), to.Type(), err)
		}
		for i := range to.Elem().NumField() {
			f := to.Elem().Type().Field(i)
			want := reflect.Zero(f.Type)
			if v := from.Elem().FieldByName(f.Name); v.IsValid() {
				want = v
			}
			if diff := cmp.Diff(want.Interface(), to.Elem().Field(i).Interface(), same...); diff != "" {
				t.Fatalf("%s of %s from %s (-want +got):\n%s", f.Name, to.Type(), from.Type(), diff)
			}
		}
	})
}

func fillAll(t *rapid.T, v reflect.Value) {
	for i := range v.NumField() {
		fill(t, v.Field(i), 3)
	}
}

// merge returns a struct with the fields of common, and those of own under numbers
// from first on, in any order.
func merge(t *rapid.T, common, own reflect.Type, first int) reflect.Type {
	var fields []reflect.StructField
	for i := range common.NumField() {
		fields = append(fields, common.Field(i))
	}
	for i := range own.NumField() {
		fields = append(fields, numbered(first+i, own.Field(i).Type))
	}
	order := rapid.Permutation(fields).Draw(t, "order")
	for i := range order {
		order[i].Offset, order[i].Index = 0, nil
	}
	return reflect.StructOf(order)
}

type narrow[T any] struct {
	V T `bin:"1"`
}

// What fits is converted, what does not is an error that names the field.
func TestConversions(t *testing.T) {
	for _, c := range []struct {
		from, to, want any // to is a pointer; no want means an error
	}{
		{narrow[int64]{-128}, &narrow[int8]{}, narrow[int8]{-128}},
		{narrow[int64]{-129}, &narrow[int8]{}, nil},
		{narrow[int16]{7}, &narrow[uint64]{}, narrow[uint64]{7}},
		{narrow[int16]{-7}, &narrow[uint64]{}, nil},
		{narrow[uint64]{math.MaxInt64}, &narrow[int]{}, narrow[int]{math.MaxInt64}},
		{narrow[uint64]{math.MaxInt64 + 1}, &narrow[int64]{}, nil},
		{narrow[uint64]{256}, &narrow[uint8]{}, nil},
		{narrow[uint]{1 << 32}, &narrow[uint32]{}, nil},
		{narrow[int]{1 << 40}, &narrow[int32]{}, nil},
		{narrow[int]{1 << 20}, &narrow[int16]{}, nil},
		{narrow[uint]{1 << 20}, &narrow[uint16]{}, nil},
		{narrow[uint8]{1}, &narrow[bool]{}, narrow[bool]{true}},
		{narrow[uint8]{2}, &narrow[bool]{}, nil},
		{narrow[float32]{1.5}, &narrow[float64]{}, narrow[float64]{1.5}},
		{narrow[float64]{1.5}, &narrow[float32]{}, narrow[float32]{1.5}},
		{narrow[float64]{0.1}, &narrow[float32]{}, nil},
		{narrow[string]{"x"}, &narrow[[]byte]{}, narrow[[]byte]{[]byte("x")}},
		{narrow[string]{"abc"}, &narrow[[3]byte]{}, narrow[[3]byte]{[3]byte([]byte("abc"))}},
		{narrow[string]{"abc"}, &narrow[[4]byte]{}, nil},
		{narrow[string]{"abc"}, &narrow[complex64]{}, nil},
		{narrow[pair]{pair{1, 2}}, &narrow[[2]byte]{}, narrow[[2]byte]{[2]byte{1, 2}}},
		{narrow[complex64]{complex(0, 2)}, &narrow[[8]byte]{}, narrow[[8]byte]{[8]byte{7: 0x40}}},
		{narrow[[8]byte]{[8]byte{7: 0x40}}, &narrow[complex64]{}, narrow[complex64]{complex(0, 2)}},
		{narrow[int]{1}, &narrow[string]{}, nil},
		{narrow[string]{"1"}, &narrow[int]{}, nil},
		{narrow[int]{5}, &narrow[*uint8]{}, narrow[*uint8]{pointerTo(uint8(5))}},
		{narrow[*int]{pointerTo(5)}, &narrow[uint8]{}, narrow[uint8]{5}},
		{narrow[[]int]{[]int{1, 2}}, &narrow[[2]uint8]{}, nil}, // bytes are no list
		{narrow[[]int]{[]int{1, 2}}, &narrow[[2]uint16]{}, narrow[[2]uint16]{[2]uint16{1, 2}}},
		{narrow[[]int]{[]int{1, 2}}, &narrow[[3]int]{}, nil},
		{narrow[[]int]{[]int{1, 2}}, &narrow[map[int]int]{}, nil},
		{narrow[map[int]int]{map[int]int{1: 2}}, &narrow[[]int]{}, nil},
		{narrow[map[int]string]{map[int]string{1: "x"}}, &narrow[map[uint8][]byte]{}, narrow[map[uint8][]byte]{map[uint8][]byte{1: []byte("x")}}},
		{narrow[[]*int]{[]*int{pointerTo(1)}}, &narrow[[]int]{}, narrow[[]int]{[]int{1}}},
		{narrow[[]*int]{[]*int{nil}}, &narrow[[]int]{}, nil},
		{narrow[any]{1}, &narrow[int]{}, nil},
		{narrow[time.Time]{time.Unix(3, 4).UTC()}, &narrow[struct {
			S int    `bin:"1"`
			N uint32 `bin:"2"`
		}]{}, narrow[struct {
			S int    `bin:"1"`
			N uint32 `bin:"2"`
		}]{struct {
			S int    `bin:"1"`
			N uint32 `bin:"2"`
		}{3, 4}}},
		{narrow[struct {
			S uint32 `bin:"1"`
			N int    `bin:"2"`
			Z int16  `bin:"3"`
			X string `bin:"4"`
		}]{struct {
			S uint32 `bin:"1"`
			N int    `bin:"2"`
			Z int16  `bin:"3"`
			X string `bin:"4"`
		}{3, 4, 3600, "x"}}, &narrow[time.Time]{}, narrow[time.Time]{time.Unix(3, 4).In(time.FixedZone("", 3600))}},
		{narrow[struct {
			S string `bin:"1"`
		}]{struct {
			S string `bin:"1"`
		}{"2026"}}, &narrow[time.Time]{}, nil},
		{narrow[struct {
			N float64 `bin:"2"`
		}]{struct {
			N float64 `bin:"2"`
		}{0.5}}, &narrow[time.Time]{}, nil},
		{narrow[struct {
			S uint64 `bin:"1"`
		}]{struct {
			S uint64 `bin:"1"`
		}{math.MaxUint64}}, &narrow[time.Time]{}, nil},
	} {
		checkConversion(t, c.from, c.to, c.want)
	}
}

func checkConversion(t *testing.T, from, to, want any) {
	t.Helper()
	r := binary.New(nil)
	buf, err := r.Append(nil, from)
	if err != nil {
		t.Fatal(err)
	}
	err = r.Decode(buf, to)
	switch {
	case want == nil:
		if !errors.Is(err, binary.ErrMismatch) || !strings.Contains(err.Error(), ": V") {
			t.Errorf("%#v to %T: %v, want a mismatch that names the field", from, to, err)
		}
	case err != nil:
		t.Errorf("%#v to %T: %v", from, to, err)
	default:
		if diff := cmp.Diff(want, reflect.ValueOf(to).Elem().Interface()); diff != "" {
			t.Errorf("%#v to %T (-want +got):\n%s", from, to, diff)
		}
	}
}

// What would not be read as a time is not written as one.
func TestTimesWithoutEncoding(t *testing.T) {
	r := binary.New(nil)
	for _, at := range []time.Time{
		time.Unix(0, 0).In(time.FixedZone("", 24*60*60)), time.Unix(0, 0).In(time.FixedZone("", -24*60*60)), time.Unix(math.MaxInt64, 0),
	} {
		if buf, err := r.Append(nil, narrow[time.Time]{at}); !errors.Is(err, binary.ErrType) {
			t.Errorf("%x, %v", buf, err)
		}
	}
	var got time.Time
	transcode(t, r, time.Unix(math.MaxInt64-62135596800, 999_999_999).In(time.FixedZone("", 24*60*60-1)), &got)
	if _, east := got.Zone(); got.Unix() != math.MaxInt64-62135596800 || east != 24*60*60-1 {
		t.Errorf("%v", got)
	}
}

// An error says where: the path of fields and elements.
func TestErrorsNameThePlace(t *testing.T) {
	type from struct {
		Rows []map[string]narrow[int] `bin:"1"`
	}
	type to struct {
		Rows []map[string]narrow[int8] `bin:"1"`
	}
	r := binary.New(nil)
	buf, err := r.Append(nil, from{[]map[string]narrow[int]{nil, {"k": {300}}}})
	if err != nil {
		t.Fatal(err)
	}
	err = r.Decode(buf, new(to))
	want := "binary: decode *binary_test.to: at byte 13 of 15: Rows[1][0].V: the input does not fit the type: 300 overflows int8"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want\n%s", err, want)
	}
}
