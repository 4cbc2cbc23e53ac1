package codec

import (
	"bytes"
	"reflect"
)

// Raw carries []byte, string, and types made from them, as they are. A nil
// []byte appended to a nil buffer gives nil, an empty one gives an empty
// buffer that is not nil; Decode makes the same difference.
var Raw Codec = rawCodec{}

type rawCodec struct{}

func (rawCodec) Name() string { return "raw" }

func (rawCodec) Append(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case []byte:
		return appendRaw(dst, v), nil
	case string:
		return appendRawString(dst, v), nil
	}
	rv := reflect.ValueOf(v)
	switch {
	case rv.Kind() == reflect.String:
		return appendRawString(dst, rv.String()), nil
	case isByteSlice(rv):
		return appendRaw(dst, rv.Bytes()), nil
	}
	return dst, EncodeError("raw", v, errNotRaw)
}

func appendRaw(dst, v []byte) []byte {
	if dst == nil && v != nil {
		dst = make([]byte, 0, len(v))
	}
	return append(dst, v...)
}

func appendRawString(dst []byte, v string) []byte {
	if dst == nil {
		dst = make([]byte, 0, len(v))
	}
	return append(dst, v...)
}

func (rawCodec) Decode(src []byte, v any) error {
	switch v := v.(type) {
	case *[]byte:
		if v != nil {
			*v = bytes.Clone(src)
			return nil
		}
	case *string:
		if v != nil {
			*v = string(src)
			return nil
		}
	}
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return DecodeError("raw", v, ErrTarget)
	}
	switch to := rv.Elem(); {
	case to.Kind() == reflect.String:
		to.SetString(string(src))
	case isByteSlice(to):
		to.SetBytes(bytes.Clone(src))
	default:
		return DecodeError("raw", v, errNotRaw)
	}
	return nil
}

func isByteSlice(v reflect.Value) bool {
	return v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8
}
