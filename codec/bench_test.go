package codec_test

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/codec/cbor"
	"github.com/mainstemdev/mainstem/codec/msgpack"
	"github.com/mainstemdev/mainstem/codec/protobuf"
)

func BenchmarkAppend(b *testing.B) {
	message, err := structpb.NewStruct(map[string]any{"name": "Ada", "age": 36})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		codec codec.Codec
		value any
	}{
		{codec.JSON, &user{Name: "Ada", Age: 36, Tags: []string{"x", "y"}}},
		{msgpack.Codec, &user{Name: "Ada", Age: 36, Tags: []string{"x", "y"}}},
		{cbor.Codec, &user{Name: "Ada", Age: 36, Tags: []string{"x", "y"}}},
		{codec.Gob, &user{Name: "Ada", Age: 36, Tags: []string{"x", "y"}}},
		{codec.Raw, []byte("a value of some thirty-two bytes")},
		{protobuf.Codec, message},
	} {
		b.Run(c.codec.Name(), func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 1<<10)
			for b.Loop() {
				if _, err := c.codec.Append(buf, c.value); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
