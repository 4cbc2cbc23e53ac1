package codec_test

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mainstemdev/mainstem/codec"
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
		{codec.MessagePack, &user{Name: "Ada", Age: 36, Tags: []string{"x", "y"}}},
		{codec.CBOR, &user{Name: "Ada", Age: 36, Tags: []string{"x", "y"}}},
		{codec.Gob, &user{Name: "Ada", Age: 36, Tags: []string{"x", "y"}}},
		{codec.Raw, []byte("a value of some thirty-two bytes")},
		{codec.Protobuf, message},
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
