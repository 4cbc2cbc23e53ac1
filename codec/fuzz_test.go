package codec_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/codec/cbor"
	"github.com/mainstemdev/mainstem/codec/msgpack"
	"github.com/mainstemdev/mainstem/codec/protobuf"
)

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"name":"Ada","age":36,"seen":"1843-01-01T00:00:00Z","tags":[],"links":{"a":"<&>"}}`))
	f.Add([]byte(`{"tags":null}`))
	f.Add([]byte(`{"tags":[],"links":{}}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, src []byte) {
		var first, second user
		if codec.JSON.Decode(src, &first) != nil {
			return
		}
		buf, err := codec.JSON.Append(nil, first)
		if err != nil {
			t.Fatalf("%q decodes but does not encode: %v", src, err)
		}
		if err := codec.JSON.Decode(buf, &second); err != nil {
			t.Fatalf("%q, encoded as %q, does not decode: %v", src, buf, err)
		}
		if len(first.Links) == 0 {
			first.Links = nil // an empty map is left out
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatalf("second round of %q (-first +second):\n%s", src, diff)
		}
	})
}

func FuzzRaw(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte{0, 255})
	f.Fuzz(func(t *testing.T, src []byte) {
		var b []byte
		var s string
		if err := codec.Raw.Decode(src, &b); err != nil || !bytes.Equal(b, src) {
			t.Fatalf("Decode(%q) gave %q, %v", src, b, err)
		}
		if err := codec.Raw.Decode(src, &s); err != nil || s != string(src) {
			t.Fatalf("Decode(%q) gave %q, %v", src, s, err)
		}
		if got, err := codec.Raw.Append([]byte("a"), b); err != nil || string(got) != "a"+s {
			t.Fatalf("Append(%q) = %q, %v", b, got, err)
		}
	})
}

func FuzzProtobuf(f *testing.F) {
	seed, _ := structpb.NewStruct(map[string]any{"a": 1.5, "b": []any{"x", nil, true}})
	buf, _ := proto.Marshal(seed)
	f.Add(buf)
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, src []byte) {
		var first, second *structpb.Struct
		if protobuf.Codec.Decode(src, &first) != nil {
			return
		}
		buf, err := protobuf.Codec.Append(nil, first)
		if err != nil {
			t.Fatalf("%x decodes but does not encode: %v", src, err)
		}
		if err := protobuf.Codec.Decode(buf, &second); err != nil {
			t.Fatalf("%x, encoded as %x, does not decode: %v", src, buf, err)
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(second)
		want, err2 := proto.MarshalOptions{Deterministic: true}.Marshal(first)
		if err != nil || err2 != nil || !bytes.Equal(again, want) {
			t.Fatalf("second round of %x gave %x (%v), want %x (%v)", src, again, err, want, err2)
		}
	})
}

func FuzzMessagePack(f *testing.F) {
	f.Add([]byte{0x81, 0xa4, 'S', 'e', 'e', 'n', 0xd6, 0xff, 0x86, 0, 0, 0}) // a time
	f.Add([]byte{0xc7, 1, 5, 0x80})                                          // an unknown extension
	fuzzFormat(f, msgpack.Codec)
}

func FuzzCBOR(f *testing.F) {
	f.Add([]byte{0xc2, 0x49, 1, 0, 0, 0, 0, 0, 0, 0, 0}) // a large number
	f.Add([]byte{0x9f, 0x5f, 0x41, 1, 0xff, 0xff})       // lengths that are not told
	fuzzFormat(f, cbor.Codec)
}

// fuzzFormat decodes into a type that bounds what is read, and into one that does not.
func fuzzFormat(f *testing.F, c codec.Codec) {
	seed, err := c.Append(nil, user{Name: "Ada", Age: 36, Seen: time.Unix(1, 2), Tags: []string{"x"}, Links: map[string]string{"a": "b"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, src []byte) {
		survives[user](t, c, src)
		survives[any](t, c, src)
		survives[map[string]any](t, c, src)
		survives[map[any]any](t, c, src)
	})
}

// survives fails the test unless what decodes from src survives another round. What one
// round makes of an interface, such as a small number of a large one, the next keeps.
func survives[T any](t *testing.T, c codec.Codec, src []byte) {
	var rounds [3]T
	for i := range rounds {
		if err := c.Decode(src, &rounds[i]); err != nil {
			if i == 0 {
				return
			}
			t.Fatalf("%#v, encoded as %x, does not decode: %v", rounds[i-1], src, err)
		}
		var err error
		if src, err = c.Append(nil, rounds[i]); err != nil {
			t.Fatalf("%#v does not encode: %v", rounds[i], err)
		}
	}
	if _, odd := any(rounds[0]).(map[any]any); odd {
		return // a key may be NaN, which equals nothing
	}
	// As text, a NaN equals another one; cmp takes exponential time over nested lists.
	if second, third := fmt.Sprintf("%#v", rounds[1]), fmt.Sprintf("%#v", rounds[2]); second != third {
		t.Fatalf("%#v became\n%s, then\n%s", rounds[0], second, third)
	}
}
