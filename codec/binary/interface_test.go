package binary_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/codec/binary"
)

func TestAppendAny(t *testing.T) {
	r := registry(t, nil)
	rapid.Check(t, func(t *rapid.T) {
		in := drawAny(t, 4)
		buf, err := r.AppendAny([]byte("kept"), in)
		if err != nil || string(buf[:4]) != "kept" {
			t.Fatalf("AppendAny(%#v) = %x, %v", in, buf, err)
		}
		out, err := r.DecodeAny(buf[4:])
		if err != nil {
			t.Fatalf("DecodeAny(%x): %v", buf[4:], err)
		}
		if reflect.TypeOf(in) != reflect.TypeOf(out) {
			t.Fatalf("a %T became a %T", in, out)
		}
		if diff := cmp.Diff(in, out, same...); diff != "" {
			t.Fatalf("round trip of %x (-in +out):\n%s", buf[4:], diff)
		}
		var variable any
		if err := r.Decode(buf[4:], &variable); err != nil {
			t.Fatalf("into a variable of type any: %v", err)
		}
		if diff := cmp.Diff(in, variable, same...); diff != "" {
			t.Fatalf("into a variable of type any (-in +out):\n%s", diff)
		}
	})
}

// A coder of an interface type writes what AppendAny does.
func TestCodersOfInterfaces(t *testing.T) {
	r := registry(t, nil)
	values, err := binary.Of[any](r)
	if err != nil {
		t.Fatal(err)
	}
	failures, err := binary.Of[error](r)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []error{nil, failure{3}, io.EOF} {
		want, err := r.AppendAny(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		var v any = in
		var gotAny any = 1
		var got error = failure{1}
		one, err := values.Append(nil, &v)
		two, err2 := failures.Append(nil, &in)
		if err := errors.Join(err, err2, values.Decode(one, &gotAny), failures.Decode(two, &got)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, want) || !bytes.Equal(two, want) || gotAny != v || got != in {
			t.Errorf("%v: %x and %x, want %x; decoded to %v and %v", in, one, two, want, gotAny, got)
		}
	}
}

// Every registry knows the types of the table in docs/codec.md, by number and name.
func TestBuiltinTypes(t *testing.T) {
	values := map[string]any{
		"bool": true, "string": "s", "bytes": []byte{1}, "int": 1, "int8": int8(1), "int16": int16(1), "int32": int32(1), "int64": int64(1),
		"uint": uint(1), "uint8": uint8(1), "uint16": uint16(1), "uint32": uint32(1), "uint64": uint64(1),
		"float32": float32(1), "float64": 1.0, "time": time.Unix(1, 0).UTC(), "duration": time.Second,
		"list": []any{1}, "map": map[string]any{"k": 1}, "strings": []string{"s"}, "error": &binary.RemoteError{Text: "e"},
	}
	r := binary.New(nil)
	if r.Name() != "binary" || len(r.Names()) != len(values) || !slices.IsSorted(r.Names()) {
		t.Errorf("%s knows %q", r.Name(), r.Names())
	}
	for name, v := range values {
		if r.NameOf(v) != name || r.TypeOf(name) != reflect.TypeOf(v) {
			t.Errorf("%T is %q, and %q is %v", v, r.NameOf(v), name, r.TypeOf(name))
		}
		buf, err := r.AppendAny(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		byName := append([]byte{buf[0], byte(len(name) << 1)}, name...)
		for _, src := range [][]byte{buf, append(byName, buf[2:]...)} {
			out, err := r.DecodeAny(src)
			if diff := cmp.Diff(v, out); diff != "" || err != nil {
				t.Errorf("%x is %#v, %v; want %#v", src, out, err, v)
			}
		}
	}
}

func TestErrorsKeepTheirIdentity(t *testing.T) {
	r := registry(t, nil)
	send := func(err error) error {
		t.Helper()
		buf, failed := r.AppendAny(nil, err)
		if failed != nil {
			t.Fatal(failed)
		}
		v, failed := r.DecodeAny(buf)
		if failed != nil {
			t.Fatal(failed)
		}
		return v.(error)
	}
	if got := send(io.EOF); got != io.EOF {
		t.Errorf("io.EOF became %v", got)
	}
	sent := fmt.Errorf("read: %w", errors.Join(fmt.Errorf("a: %w", io.EOF), failure{3}, fs.ErrClosed))
	got := send(sent)
	var f failure
	if got.Error() != sent.Error() || !errors.Is(got, io.EOF) || !errors.As(got, &f) || f.Code != 3 {
		t.Errorf("%v lost what it wraps", got)
	}
	if errors.Is(got, fs.ErrClosed) {
		t.Error("an error that is not registered has kept its identity")
	}
	if again := send(got); again.Error() != sent.Error() || !errors.Is(again, io.EOF) {
		t.Errorf("sent twice, it is %v", again)
	}
}

// A type is written by its number once it has one, and its methods make no
// difference to what is cached.
func TestRegisteringLater(t *testing.T) {
	r := binary.New(nil)
	if _, err := r.AppendAny(nil, leaf{}); !errors.Is(err, binary.ErrUnregistered) {
		t.Errorf("unregistered: %v", err)
	}
	if err := r.RegisterNumber(50, "leaf", leaf{}); err != nil {
		t.Fatal(err)
	}
	if buf, err := r.AppendAny(nil, leaf{}); err != nil || fmt.Sprintf("%x", buf) != "17651500" {
		t.Errorf("%x, %v", buf, err)
	}
	one, two := failure{1}, failure{2}
	if err := r.RegisterError("two", two); err != nil {
		t.Fatal(err)
	}
	if err := r.Register("failure", failure{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []error{one, two, one, two} {
		buf, err := r.AppendAny(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.DecodeAny(buf); got != want || err != nil {
			t.Errorf("%v became %v, %v", want, got, err)
		}
	}
}

func TestRegisterRefuses(t *testing.T) {
	r := registry(t, nil)
	type other struct{ A int }
	type callback struct{ F func() }
	for what, err := range map[string]error{
		"nil":                   r.Register("n", nil),
		"an empty name":         r.Register("", other{}),
		"a name twice":          r.Register("leaf", other{}),
		"the name of an error":  r.Register("eof", other{}),
		"a type twice":          r.Register("leaf2", leaf{}),
		"a number twice":        r.RegisterNumber(900, "other", other{}),
		"a reserved number":     r.RegisterNumber(binary.MinTypeNumber-1, "other", other{}),
		"a number too large":    r.RegisterNumber(binary.MaxTypeNumber+1, "other", other{}),
		"an error twice":        r.RegisterError("eof2", io.EOF),
		"a nil error":           r.RegisterError("nil", nil),
		"an incomparable error": r.RegisterError("list", incomparable{}),
		"a function":            r.Register("callback", callback{}),
	} {
		if err == nil {
			t.Errorf("%s is registered", what)
		}
	}
	if r.NameOf(other{}) != "" || r.TypeOf("other") != nil || r.NameOf(nil) != "" || r.TypeOf("eof") != nil {
		t.Error("a refused type is known")
	}
	if r.NameOf(io.EOF) != "eof" {
		t.Error("io.EOF has no name")
	}
}

type incomparable []string

func (incomparable) Error() string { return "incomparable" }

func TestInterfacesRefuse(t *testing.T) {
	type holder struct {
		E error `bin:"1"`
	}
	type wide struct {
		E any `bin:"1"`
	}
	r := registry(t, nil)
	for name, v := range map[string]any{
		"an unregistered type":   &wide{struct{ A int }{1}},
		"a nil pointer to error": &holder{(*failurePointer)(nil)},
	} {
		if _, err := r.Append(nil, v); !errors.Is(err, binary.ErrUnregistered) {
			t.Errorf("%s: %v, want ErrUnregistered", name, err)
		}
	}
	buf, err := r.Append(nil, wide{7})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Decode(buf, new(holder)); !errors.Is(err, binary.ErrMismatch) {
		t.Errorf("an int is read as an error: %v", err)
	}
	for name, src := range map[string][]byte{
		"an unknown name":   append([]byte{0x17, 8}, "nobody"[:4]...),
		"an unknown number": {0x17, 0xff, 0xff, 0xff, 0xff, 0x0f},
	} {
		if v, err := r.DecodeAny(src); !errors.Is(err, binary.ErrUnregistered) {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
	if _, err := r.DecodeAny([]byte{0x15, 0}); !errors.Is(err, binary.ErrMismatch) {
		t.Errorf("a struct is decoded as any: %v", err)
	}
}

type failurePointer struct{ Code int }

func (f *failurePointer) Error() string { return fmt.Sprint(f.Code) }

// Fields that a program does not know are skipped whatever they hold, types that
// it has not registered included.
func TestUnknownTypesAreSkipped(t *testing.T) {
	type from struct {
		V any `bin:"1"`
		N int `bin:"2"`
	}
	type to struct {
		N int `bin:"2"`
	}
	writer, reader := registry(t, nil), binary.New(nil)
	for _, v := range []any{leaf{A: 1}, &leaf{S: "x"}, []any{lone{}, nil, io.EOF}, &tree{Children: []*tree{nil, {}}}, map[string]any{"a": 1.5, "b": float32(1)}} {
		buf, err := writer.Append(nil, from{v, 9})
		if err != nil {
			t.Fatal(err)
		}
		var got to
		if err := reader.Decode(buf, &got); err != nil || got.N != 9 {
			t.Errorf("%#v: %+v, %v", v, got, err)
		}
	}
}
