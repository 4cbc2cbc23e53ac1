// Package cbor is the [codec.Codec] for the format of RFC 8949. It stands apart from
// package codec so that only programs which use it link its library.
//
//	users, err := kv.Open[User](log, "users", &kv.Options{Codec: cbor.Codec})
//
//snippet:type User struct{ Name string }
//snippet:var log mainstem.Log
package cbor

import (
	"bytes"
	"math"
	"reflect"

	"github.com/fxamacker/cbor/v2"

	"github.com/mainstemdev/mainstem/codec"
)

// maxDepth bounds lists, maps and tags within each other.
const maxDepth = 1000

// Codec carries any Go type in the format of RFC 8949. Structs become maps by field
// name, or as a "cbor" or "json" tag says. Times are texts with nanoseconds and zone,
// in years of four digits: others cannot be decoded. Nor can a map without text keys
// that an any holds, since it would become a map[string]any.
// Decoding refuses a map with a key twice, and lists, maps and tags nested deeper
// than 1,000 levels.
var Codec codec.Codec = newFormat()

type format struct {
	enc cbor.UserBufferEncMode
	dec cbor.DecMode
}

// newFormat makes the modes of constant options, which the tests show to be valid.
func newFormat() codec.Codec {
	enc, _ := cbor.EncOptions{Time: cbor.TimeRFC3339Nano, TimeTag: cbor.EncTagRequired}.UserBufferEncMode()
	dec, _ := cbor.DecOptions{
		DupMapKey:       cbor.DupMapKeyEnforcedAPF,
		UTF8:            cbor.UTF8DecodeInvalid, // any Go string that was encoded can be read again
		DefaultMapType:  reflect.TypeFor[map[string]any](),
		MaxNestedLevels: maxDepth,
		// The library counts the elements there are before it makes room for them, so that
		// its own bounds would only refuse what it has encoded itself.
		MaxArrayElements: math.MaxInt32,
		MaxMapPairs:      math.MaxInt32,
	}.DecMode()
	return format{enc, dec}
}

func (format) Name() string { return "cbor" }

func (c format) Append(dst []byte, v any) ([]byte, error) {
	w := bytes.NewBuffer(dst)
	if err := c.enc.MarshalToBuffer(v, w); err != nil {
		return dst, codec.EncodeError("cbor", v, err)
	}
	return w.Bytes(), nil
}

func (c format) Decode(src []byte, v any) error {
	if rv := reflect.ValueOf(v); rv.Kind() != reflect.Pointer || rv.IsNil() {
		return codec.DecodeError("cbor", v, codec.ErrTarget)
	}
	if err := c.dec.Unmarshal(src, v); err != nil {
		return codec.DecodeError("cbor", v, err)
	}
	return nil
}
