package codec

import (
	"bytes"
	"encoding/gob"
	"errors"
	"reflect"
)

// Gob carries any Go type with encoding/gob. Each value brings the description of
// its type along, so it is large and slow to decode. Fields that are zero are left
// out, so nil and empty become one. Not for input from strangers: the library does
// not defend itself against it.
var Gob Codec = gobCodec{}

type gobCodec struct{}

var (
	errGobLong = errors.New("the input goes on after its value")
	errGobNil  = errors.New("nil has no encoding")
)

func (gobCodec) Name() string { return "gob" }

func (gobCodec) Append(dst []byte, v any) ([]byte, error) {
	rv := reflect.ValueOf(v)
	if !rv.IsValid() || rv.Kind() == reflect.Pointer && rv.IsNil() { // the library panics
		return dst, EncodeError("gob", v, errGobNil)
	}
	w := bytes.NewBuffer(dst)
	if err := gob.NewEncoder(w).EncodeValue(rv); err != nil {
		return dst, EncodeError("gob", v, err)
	}
	return w.Bytes(), nil
}

func (gobCodec) Decode(src []byte, v any) error {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		return DecodeError("gob", v, ErrTarget)
	}
	r := bytes.NewReader(src)
	if err := gob.NewDecoder(r).DecodeValue(rv); err != nil {
		return DecodeError("gob", v, err)
	}
	if r.Len() > 0 {
		return DecodeError("gob", v, errGobLong)
	}
	return nil
}
