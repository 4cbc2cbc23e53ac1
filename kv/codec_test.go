package kv_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/codec/protobuf"
	"github.com/mainstemdev/mainstem/kv"
)

var rawCodec = codec.Raw

// stored returns the bytes that a bucket of T stores for v.
func stored[T any](t *testing.T, log mainstem.Log, name string, o *kv.Options, v T) (value string, codec string) {
	t.Helper()
	b := open[T](t, log, name, o)
	put(t, b, "k", v)
	r := must[mainstem.Record](t)(log.Get(t.Context(), b.Space(), []byte("k")))
	info := must[mainstem.SpaceInfo](t)(log.Space(t.Context(), b.Space()))
	return string(r.Value), info.Policy.Metadata["codec"]
}

func TestDefaultCodecs(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		for name, got := range map[string]func() (string, string, string, string){
			"bytes": func() (string, string, string, string) {
				v, c := stored(t, log, "a", nil, []byte("x"))
				return v, c, "x", "raw"
			},
			"string": func() (string, string, string, string) {
				v, c := stored(t, log, "b", nil, "x")
				return v, c, "x", "raw"
			},
			"number": func() (string, string, string, string) {
				v, c := stored(t, log, "c", nil, int64(-7))
				return v, c, "-7", "json"
			},
			"struct": func() (string, string, string, string) {
				v, c := stored(t, log, "d", nil, user{"<A>", 1})
				return v, c, `{"name":"<A>","age":1}`, "json"
			},
			"message": func() (string, string, string, string) {
				v, c := stored(t, log, "e", &kv.Options{Codec: protobuf.Codec}, wrapperspb.String("x"))
				return v, c, "\x0a\x01x", "protobuf"
			},
			"chosen": func() (string, string, string, string) {
				v, c := stored(t, log, "f", &kv.Options{Codec: codec.JSON}, "x")
				return v, c, `"x"`, "json"
			},
		} {
			value, codec, wantValue, wantCodec := got()
			if value != wantValue || codec != wantCodec {
				t.Errorf("%s: stored %q by %s: want %q by %s", name, value, codec, wantValue, wantCodec)
			}
		}
	})
}

func TestProtobufBucket(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[*wrapperspb.StringValue](t, log, "t", &kv.Options{Codec: protobuf.Codec})
		put(t, b, "k", wrapperspb.String("hello"))
		put(t, b, "zero", &wrapperspb.StringValue{})
		if e := must[kv.Entry[*wrapperspb.StringValue]](t)(b.Get(t.Context(), "k")); !proto.Equal(e.Value, wrapperspb.String("hello")) {
			t.Errorf("value %v", e.Value)
		}
		if e := must[kv.Entry[*wrapperspb.StringValue]](t)(b.Get(t.Context(), "zero")); e.Value == nil || e.Value.Value != "" {
			t.Errorf("value %v: want an empty message", e.Value)
		}
		_, err := b.Put(t.Context(), "nil", nil)
		wantErr(t, err, mainstem.ErrInvalid)
	})
}

func TestOpenRefuses(t *testing.T) {
	log := modelLog(t)
	long := strings.Repeat("n", kv.MaxName)
	for _, name := range []string{"a/b", "b", "A-z_0.9/x", long + "/" + long, "a/...", "kv"} {
		if _, err := kv.Open[string](log, name, nil); err != nil {
			t.Errorf("Open(%q): %v", name, err)
		}
	}
	for _, name := range []string{"", "/", "a/", "/b", "a/b/c", "a b", "a/ä", "a/.", "../b", "a/\x00", long + "n/t", "d/" + long + "n", "a:b"} {
		if _, err := kv.Open[string](log, name, nil); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("Open(%q): %v: want Invalid", name, err)
		}
	}
	_, err := kv.Open[string](log, "t", &kv.Options{History: -2, TTL: -1, MaxAge: -1, MaxBytes: -1, Durability: -9})
	wantErr(t, err, mainstem.ErrInvalid)
	for _, field := range []string{"History", "TTL", "MaxAge", "MaxBytes", "Durability"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("error %q does not name %s", err, field)
		}
	}
	if _, err := kv.Open[wrapperspb.StringValue](log, "t", nil); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), "*wrapperspb.StringValue") {
		t.Errorf("Open of a message by value: %v", err)
	}
	if _, err := kv.Open[*wrapperspb.StringValue](log, "t", nil); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), "protobuf.Codec") {
		t.Errorf("Open of a message without a codec: %v: want one that names protobuf.Codec", err)
	}
}

func TestNames(t *testing.T) {
	log := modelLog(t)
	b := open[string](t, log, "users", nil)
	if b.Name() != "default/users" || b.Database() != kv.DefaultDatabase || b.Table() != "users" || b.Space() != "kv/default/users" {
		t.Fatalf("%q, %q, %q, %q", b.Name(), b.Database(), b.Table(), b.Space())
	}
}
