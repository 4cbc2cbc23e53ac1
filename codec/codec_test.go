package codec_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/codec/protobuf"
)

type user struct {
	Name  string            `json:"name"`
	Age   int               `json:"age,omitempty"`
	Seen  time.Time         `json:"seen"`
	Tags  []string          `json:"tags"`
	Links map[string]string `json:"links,omitempty"`
}

type (
	blob []byte
	id   string
)

func TestAppendKeepsWhatTheBufferHolds(t *testing.T) {
	for _, c := range []struct {
		codec codec.Codec
		value any
		want  string
	}{
		{codec.JSON, map[string]int{"a": 1}, `{"a":1}`},
		{codec.JSON, "<a href='?x=1&y=2'>", `"<a href='?x=1&y=2'>"`},
		{codec.JSON, []byte(nil), `null`},
		{codec.JSON, nil, `null`},
		{codec.Raw, []byte{0, 255}, "\x00\xff"},
		{codec.Raw, "text", "text"},
		{codec.Raw, blob("blob"), "blob"},
		{codec.Raw, id("id"), "id"},
		{protobuf.Codec, wrapperspb.String("hi"), "\x0a\x02hi"},
		{protobuf.Codec, wrapperspb.String(""), ""},
	} {
		got, err := c.codec.Append([]byte("before "), c.value)
		if err != nil || string(got) != "before "+c.want {
			t.Errorf("%s: Append(%#v) = %q, %v; want %q", c.codec.Name(), c.value, got, err, "before "+c.want)
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := user{
			Name: rapid.String().Draw(t, "name"),
			Age:  rapid.Int().Draw(t, "age"),
			Seen: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "seen"), 0).UTC(),
			Tags: rapid.SliceOf(rapid.String()).Draw(t, "tags"),
		}
		buf, err := codec.JSON.Append(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(buf); buf[n-1] == '\n' {
			t.Fatalf("%q ends with a line feed", buf)
		}
		var out user
		if err := codec.JSON.Decode(buf, &out); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(in, out); diff != "" {
			t.Fatalf("round trip of %s (-in +out):\n%s", buf, diff)
		}
	})
}

func TestJSONWriterIsCleanAfterAnError(t *testing.T) {
	for range 100 { // whichever pooled encoder comes up
		dst := []byte("kept")
		got, err := codec.JSON.Append(dst, math.NaN())
		if err == nil || string(got) != "kept" {
			t.Fatalf("Append(NaN) = %q, %v; want the buffer as it was, and an error", got, err)
		}
		got, err = codec.JSON.Append(nil, 7)
		if err != nil || string(got) != "7" {
			t.Fatalf("Append(7) after an error = %q, %v", got, err)
		}
	}
}

func TestRawKeepsNilAndEmptyApart(t *testing.T) {
	for _, in := range [][]byte{nil, {}, {0}, []byte("x")} {
		buf, err := codec.Raw.Append(nil, in)
		if err != nil || (buf == nil) != (in == nil) {
			t.Fatalf("Append(nil, %#v) = %#v, %v", in, buf, err)
		}
		out := []byte("overwritten")
		if err := codec.Raw.Decode(buf, &out); err != nil || (out == nil) != (in == nil) || string(out) != string(in) {
			t.Fatalf("Decode(%#v) gave %#v, %v", buf, out, err)
		}
		var named blob
		if err := codec.Raw.Decode(buf, &named); err != nil || (named == nil) != (in == nil) || string(named) != string(in) {
			t.Fatalf("Decode(%#v) into a named type gave %#v, %v", buf, named, err)
		}
	}
	if buf, err := codec.Raw.Append(nil, ""); err != nil || buf == nil {
		t.Fatalf(`Append(nil, "") = %#v, %v: want an empty buffer that is not nil`, buf, err)
	}
}

func TestDecodeSharesNoMemory(t *testing.T) {
	src := []byte("original")
	var b []byte
	var n blob
	for _, to := range []any{&b, &n} {
		if err := codec.Raw.Decode(src, to); err != nil {
			t.Fatal(err)
		}
	}
	msg, err := protobuf.Codec.Append(nil, wrapperspb.Bytes([]byte("original")))
	if err != nil {
		t.Fatal(err)
	}
	var m *wrapperspb.BytesValue
	if err := protobuf.Codec.Decode(msg, &m); err != nil {
		t.Fatal(err)
	}
	clear(src)
	clear(msg)
	if string(b) != "original" || string(n) != "original" || string(m.Value) != "original" {
		t.Fatalf("values changed with the buffer: %q, %q, %q", b, n, m.Value)
	}
}

func TestProtobufRoundTrip(t *testing.T) {
	in, err := structpb.NewStruct(map[string]any{"a": 1.5, "b": []any{"x", nil, true}})
	if err != nil {
		t.Fatal(err)
	}
	buf, err := protobuf.Codec.Append(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	var fresh *structpb.Struct // a bucket's case: the codec makes the message
	if err := protobuf.Codec.Decode(buf, &fresh); err != nil || !proto.Equal(in, fresh) {
		t.Fatalf("Decode into a nil pointer gave %v, %v; want %v", fresh, err, in)
	}
	var own structpb.Struct
	if err := protobuf.Codec.Decode(buf, &own); err != nil || !proto.Equal(in, &own) {
		t.Fatalf("Decode into a message gave %v, %v; want %v", &own, err, in)
	}
}

func TestErrorsNameCodecAndType(t *testing.T) {
	var noMessage *timestamppb.Timestamp
	var noBytes *[]byte
	var number int
	var message proto.Message
	encode := func(c codec.Codec, v any) error { _, err := c.Append(nil, v); return err }
	for _, c := range []struct {
		err  error
		want string
	}{
		{encode(codec.JSON, make(chan int)), "json: encode chan int: "},
		{encode(codec.Raw, 7), "raw: encode int: want []byte"},
		{encode(codec.Raw, nil), "raw: encode <nil>: "},
		{encode(codec.Raw, []int{1}), "raw: encode []int: "},
		{encode(protobuf.Codec, user{}), "protobuf: encode codec_test.user: want a generated"},
		{encode(protobuf.Codec, noMessage), "protobuf: encode *timestamppb.Timestamp: the message is nil"},
		{codec.JSON.Decode([]byte("{"), &number), "json: decode *int: unexpected end"},
		{codec.JSON.Decode([]byte("1 2"), &number), "json: decode *int: "},
		{codec.JSON.Decode([]byte("1"), number), "json: decode int: the target"},
		{codec.JSON.Decode([]byte("1"), nil), "json: decode <nil>: the target"},
		{codec.JSON.Decode(nil, &number), "json: decode *int: "},
		{codec.Raw.Decode([]byte("1"), &number), "raw: decode *int: want []byte"},
		{codec.Raw.Decode([]byte("1"), noBytes), "raw: decode *[]uint8: the target"},
		{codec.Raw.Decode([]byte("1"), nil), "raw: decode <nil>: the target"},
		{protobuf.Codec.Decode([]byte{0xff}, new(timestamppb.Timestamp)), "protobuf: decode *timestamppb.Timestamp: "},
		{protobuf.Codec.Decode(nil, noMessage), "protobuf: decode *timestamppb.Timestamp: the target"},
		{protobuf.Codec.Decode(nil, &number), "protobuf: decode *int: want a generated"},
		{protobuf.Codec.Decode(nil, &message), "protobuf: decode *protoreflect.ProtoMessage: want a generated"},
		{protobuf.Codec.Decode(nil, nil), "protobuf: decode <nil>: the target"},
	} {
		var e *codec.Error
		if !errors.As(c.err, &e) || !strings.HasPrefix(c.err.Error(), c.want) {
			t.Errorf("error %v: want *codec.Error %q", c.err, c.want)
		}
		if e != nil && errors.Unwrap(c.err) == nil {
			t.Errorf("error %v has no cause", c.err)
		}
	}
}
