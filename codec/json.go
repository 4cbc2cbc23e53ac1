package codec

import (
	"encoding/json"
	"reflect"
	"sync"
)

// JSON encodes with encoding/json, without a line end. It does not escape <, >
// and & as \u003c and so on: what a log stores is not pasted into a web page,
// and a stored URL stays readable. Decode accepts both spellings.
var JSON Codec = jsonCodec{}

type jsonCodec struct{}

// jsonWriter is an encoder and the buffer that it appends to. Encoders without
// HTML escaping exist only as writers of streams; a pool makes them cheap.
type jsonWriter struct {
	buf []byte
	enc *json.Encoder
}

func (w *jsonWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	return len(p), nil
}

var jsonWriters = sync.Pool{New: func() any {
	w := new(jsonWriter)
	w.enc = json.NewEncoder(w)
	w.enc.SetEscapeHTML(false)
	return w
}}

func (jsonCodec) Name() string { return "json" }

func (jsonCodec) Append(dst []byte, v any) ([]byte, error) {
	w := jsonWriters.Get().(*jsonWriter)
	w.buf = dst
	err := w.enc.Encode(v)
	out := w.buf
	w.buf = nil
	jsonWriters.Put(w)
	if err != nil {
		return dst, EncodeError("json", v, err)
	}
	return out[:len(out)-1], nil // the encoder ends every value with a line feed
}

func (jsonCodec) Decode(src []byte, v any) error {
	if rv := reflect.ValueOf(v); rv.Kind() != reflect.Pointer || rv.IsNil() {
		return DecodeError("json", v, ErrTarget)
	}
	if err := json.Unmarshal(src, v); err != nil {
		return DecodeError("json", v, err)
	}
	return nil
}
