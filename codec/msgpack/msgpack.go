// Package msgpack is the [codec.Codec] for the MessagePack format. It stands apart from
// package codec so that only programs which use it link its library.
//
//	users, err := kv.Open[User](log, "users", &kv.Options{Codec: msgpack.Codec})
//
//snippet:type User struct{ Name string }
//snippet:var log mainstem.Log
package msgpack

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/mainstemdev/mainstem/codec"
)

// Codec carries any Go type in the MessagePack format. Structs become maps
// by field name, or by the name in a "msgpack" tag. Times are timestamps without a
// zone, and come back in local time. Decoding refuses lists and maps nested deeper
// than 1,000 levels.
var Codec codec.Codec = format{}

type format struct{}

func (format) Name() string { return "msgpack" }

func (format) Append(dst []byte, v any) ([]byte, error) {
	w := bytes.NewBuffer(dst)
	enc := msgpack.GetEncoder()
	enc.Reset(w)
	err := enc.Encode(v)
	msgpack.PutEncoder(enc)
	if err != nil {
		return dst, codec.EncodeError("msgpack", v, err)
	}
	return w.Bytes(), nil
}

func (format) Decode(src []byte, v any) error {
	if rv := reflect.ValueOf(v); rv.Kind() != reflect.Pointer || rv.IsNil() {
		return codec.DecodeError("msgpack", v, codec.ErrTarget)
	}
	r := reader{src: src}
	var err error
	if r.ext, err = check(src); err == nil {
		err = r.decode(v)
	}
	if err != nil {
		return codec.DecodeError("msgpack", v, err)
	}
	return nil
}

// reader is what the library reads from. It keeps the library to the
// borders between values that [check] has seen: asked for a map, the
// library would take the content of an extension for one, and so get at bytes that
// nobody has checked. It reads what is a value byte by byte, content all at once.
type reader struct {
	src []byte
	off int
	ext []int // where the contents of extensions begin, ascending
}

// decode calls the library, which panics over a map key that cannot be one.
func (r *reader) decode(v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the input does not fit: %v", p)
		}
	}()
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(r)
	dec.UsePreallocateValues(true)
	return dec.Decode(v)
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if r.off == len(r.src) && len(p) > 0 {
		return 0, errShort
	}
	n := copy(p, r.src[r.off:])
	r.off += n
	return n, nil
}

// ReadByte implements io.ByteReader.
func (r *reader) ReadByte() (byte, error) {
	for len(r.ext) > 0 && r.ext[0] < r.off {
		r.ext = r.ext[1:]
	}
	switch {
	case r.off == len(r.src):
		return 0, errShort
	case len(r.ext) > 0 && r.ext[0] == r.off:
		return 0, errExt
	}
	r.off++
	return r.src[r.off-1], nil
}

// UnreadByte implements io.ByteScanner.
func (r *reader) UnreadByte() error {
	r.off--
	return nil
}
