package codec_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mainstemdev/mainstem/codec"
)

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"name":"Ada","age":36,"seen":"1843-01-01T00:00:00Z","tags":[],"links":{"a":"<&>"}}`))
	f.Add([]byte(`{"tags":null}`))
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
		if codec.Protobuf.Decode(src, &first) != nil {
			return
		}
		buf, err := codec.Protobuf.Append(nil, first)
		if err != nil {
			t.Fatalf("%x decodes but does not encode: %v", src, err)
		}
		if err := codec.Protobuf.Decode(buf, &second); err != nil {
			t.Fatalf("%x, encoded as %x, does not decode: %v", src, buf, err)
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(second)
		want, err2 := proto.MarshalOptions{Deterministic: true}.Marshal(first)
		if err != nil || err2 != nil || !bytes.Equal(again, want) {
			t.Fatalf("second round of %x gave %x (%v), want %x (%v)", src, again, err, want, err2)
		}
	})
}
