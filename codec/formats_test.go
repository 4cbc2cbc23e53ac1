package codec_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/codec/cbor"
	"github.com/mainstemdev/mainstem/codec/msgpack"
)

var formats = []codec.Codec{msgpack.Codec, cbor.Codec, codec.Gob}

func TestFormatsRoundTrip(t *testing.T) {
	for _, c := range formats {
		t.Run(c.Name(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := user{
					Name:  rapid.String().Draw(t, "name"),
					Age:   rapid.Int().Draw(t, "age"),
					Seen:  time.Unix(rapid.Int64Range(1, 1<<33).Draw(t, "seen"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanos")).UTC(),
					Tags:  rapid.SliceOfN(rapid.String(), 1, -1).Draw(t, "tags"), // gob cannot tell nil from empty
					Links: map[string]string{"a": rapid.String().Draw(t, "link")},
				}
				buf, err := c.Append([]byte("before "), in)
				if err != nil || !bytes.HasPrefix(buf, []byte("before ")) {
					t.Fatalf("Append = %q, %v", buf, err)
				}
				buf = buf[len("before "):]
				var out user
				if err := c.Decode(buf, &out); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(in, out); diff != "" {
					t.Fatalf("round trip of %x (-in +out):\n%s", buf, diff)
				}
				for n := range buf {
					if c.Decode(buf[:n], &out) == nil {
						t.Fatalf("%x decodes without its last %d bytes", buf, len(buf)-n)
					}
				}
				if c.Decode(append(buf, buf...), &out) == nil {
					t.Fatalf("%x decodes twice in one", buf)
				}
			})
		})
	}
}

func TestFormatsKeepWhatIsUnusual(t *testing.T) {
	long := make([]int, 1<<17+1) // more than the CBOR library reads unless told to
	wide := make(map[int]bool, len(long))
	for i := range long {
		long[i], wide[i] = i, true
	}
	for _, c := range formats {
		unusual(t, c, "not UTF-8: \xff\xfe")
		unusual(t, c, []byte{0, 255})
		unusual(t, c, long)
		unusual(t, c, wide)
		unusual(t, c, strings.Repeat("x", 1<<20))
		unusual(t, c, map[string]any{"a": "b", "c": []any{"d", true}})
		unusual(t, c, time.Unix(1<<32, 5).UTC())
		unusual(t, c, []time.Time{time.Unix(1, 0).UTC(), time.Unix(-1<<34, 999).UTC()})
	}
}

// A map without text keys, in an any, is not decoded as another one.
func TestCBORMapsInAny(t *testing.T) {
	for _, in := range []any{map[string]any{"1": "x"}, map[int]string{1: "x"}} {
		buf, err := cbor.Codec.Append(nil, &in)
		if err != nil {
			t.Fatal(err)
		}
		var out any
		err = cbor.Codec.Decode(buf, &out)
		if _, texts := in.(map[string]any); texts && (err != nil || !reflect.DeepEqual(in, out)) || !texts && err == nil {
			t.Errorf("%v became %v, %v", in, out, err)
		}
	}
}

func unusual[T any](t *testing.T, c codec.Codec, in T) {
	t.Helper()
	if _, nested := any(in).(map[string]any); nested && c == codec.Gob {
		return // types within interfaces have to be registered with encoding/gob
	}
	buf, err := c.Append(nil, in)
	if err != nil {
		t.Errorf("%s: %v", c.Name(), err)
		return
	}
	var out T
	if err := c.Decode(buf, &out); err != nil {
		t.Errorf("%s: %v", c.Name(), err)
	} else if !reflect.DeepEqual(in, out) && !cmp.Equal(in, out) { // times in another zone are equal
		t.Errorf("%s: %T came back as another: %.200v", c.Name(), in, out)
	}
}

func TestFormatsShareNoMemory(t *testing.T) {
	type holder struct {
		Bytes []byte
		Text  string
	}
	for _, c := range formats {
		buf, err := c.Append(nil, holder{[]byte("original"), "original"})
		if err != nil {
			t.Fatal(err)
		}
		var out holder
		if err := c.Decode(buf, &out); err != nil {
			t.Fatal(err)
		}
		clear(buf)
		if string(out.Bytes) != "original" || out.Text != "original" {
			t.Errorf("%s: the value changed with the buffer: %+v", c.Name(), out)
		}
	}
}

func TestFormatErrors(t *testing.T) {
	var number int
	var none *user
	for _, c := range formats {
		dst := []byte("kept")
		got, err := c.Append(dst, make(chan int))
		if string(got) != "kept" {
			t.Errorf("%s: after an error the buffer is %q", c.Name(), got)
		}
		for _, err := range []error{
			err,
			c.Decode([]byte{0xc1}, &number), // no value in any of them
			c.Decode(nil, &number),
			c.Decode([]byte{1}, number),
			c.Decode([]byte{1}, nil),
			c.Decode([]byte{1}, none),
		} {
			var e *codec.Error
			if !errors.As(err, &e) || e.Codec != c.Name() || e.Err == nil {
				t.Errorf("%s: error %v is no complete *codec.Error", c.Name(), err)
			}
		}
	}
	for _, v := range []any{nil, none} {
		if _, err := codec.Gob.Append(nil, v); err == nil {
			t.Errorf("gob encodes %T", v)
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	for c, open := range map[codec.Codec]byte{msgpack.Codec: 0x91, cbor.Codec: 0x81} {
		for levels, want := range map[int]bool{1000: true, 1001: false, 20 << 20: false} {
			src := append(bytes.Repeat([]byte{open}, levels), 0)
			var v any
			if err := c.Decode(src, &v); (err == nil) != want {
				t.Errorf("%s: decoding %d levels: %v", c.Name(), levels, err)
			}
		}
	}
}

// TestMessagePackExtensionIsNoValue hides values in the content of an extension, where the
// library would look for a map without any bound.
func TestMessagePackExtensionIsNoValue(t *testing.T) {
	deep := append([]byte{0x81, 0xa1, 'a'}, bytes.Repeat([]byte{0x91}, 20<<20)...)
	src := binary.BigEndian.AppendUint32([]byte{0xc9}, uint32(len(deep)))
	src = append(append(src, 5), deep...)
	var m map[string]any
	if err := msgpack.Codec.Decode(src, &m); err == nil {
		t.Error("the content of an extension was read as a map")
	}
	// An extension of one byte that begins a map, whose rest follows.
	var list []map[string]any
	if err := msgpack.Codec.Decode([]byte{0x92, 0xd4, 5, 0x81, 0xa1, 'a'}, &list); err == nil {
		t.Errorf("read %v over the end of an extension", list)
	}
	// An extension without content, which would be skipped.
	if err := msgpack.Codec.Decode([]byte{0x92, 0xc7, 0, 5, 0x80}, &list); err == nil {
		t.Errorf("an empty extension was skipped: %v", list)
	}
}

func TestMessagePackKeyThatCannotBeOne(t *testing.T) {
	for _, c := range []struct {
		codec codec.Codec
		src   []byte
	}{
		{msgpack.Codec, []byte{0x81, 0x91, 0x01, 0x01}}, // {[1]: 1}
		{cbor.Codec, []byte{0xa1, 0x81, 0x01, 0x01}},
	} {
		var m map[any]any
		var e *codec.Error
		if err := c.codec.Decode(c.src, &m); !errors.As(err, &e) {
			t.Errorf("%s: a list as a map key: %v, %v", c.codec.Name(), m, err)
		}
	}
}
