package codec

import (
	"bytes"
	"math"
	"reflect"

	"github.com/fxamacker/cbor/v2"
)

// maxCBORDepth bounds lists, maps and tags within each other.
const maxCBORDepth = 1000

// CBOR carries any Go type in the format of RFC 8949. Structs become maps by field
// name, or as a "cbor" or "json" tag says. Times are texts with nanoseconds and zone,
// in years of four digits: others cannot be decoded.
// Decoding refuses a map with a key twice, and lists, maps and tags nested deeper
// than 1,000 levels.
var CBOR Codec = newCBOR()

type cborCodec struct {
	enc cbor.UserBufferEncMode
	dec cbor.DecMode
}

// newCBOR makes the modes of constant options, which the tests show to be valid.
func newCBOR() Codec {
	enc, _ := cbor.EncOptions{Time: cbor.TimeRFC3339Nano, TimeTag: cbor.EncTagRequired}.UserBufferEncMode()
	dec, _ := cbor.DecOptions{
		DupMapKey:       cbor.DupMapKeyEnforcedAPF,
		UTF8:            cbor.UTF8DecodeInvalid, // any Go string that was encoded can be read again
		DefaultMapType:  reflect.TypeFor[map[string]any](),
		MaxNestedLevels: maxCBORDepth,
		// The library counts the elements there are before it makes room for them, so that
		// its own bounds would only refuse what it has encoded itself.
		MaxArrayElements: math.MaxInt32,
		MaxMapPairs:      math.MaxInt32,
	}.DecMode()
	return cborCodec{enc, dec}
}

func (cborCodec) Name() string { return "cbor" }

func (c cborCodec) Append(dst []byte, v any) ([]byte, error) {
	w := bytes.NewBuffer(dst)
	if err := c.enc.MarshalToBuffer(v, w); err != nil {
		return dst, encodeError("cbor", v, err)
	}
	return w.Bytes(), nil
}

func (c cborCodec) Decode(src []byte, v any) error {
	if rv := reflect.ValueOf(v); rv.Kind() != reflect.Pointer || rv.IsNil() {
		return decodeError("cbor", v, errNilTarget)
	}
	if err := c.dec.Unmarshal(src, v); err != nil {
		return decodeError("cbor", v, err)
	}
	return nil
}
