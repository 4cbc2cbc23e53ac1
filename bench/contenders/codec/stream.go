package codec

import (
	"bytes"
	"encoding/gob"
	"slices"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/mainstemdev/mainstem/bench/suites/codec"
)

// msgPack keeps an encoder and a decoder.
func msgPack() codec.Factory {
	return codec.Factory{
		Name: "msgpack", Note: "vmihailenco/msgpack: encoder and decoder are kept",
		Open: func(s codec.Shape) (codec.Worker, error) {
			w := &streamWorker{clear: s.Clear, out: s.New()}
			w.encode, w.decode = msgpack.NewEncoder(&w.w).Encode, msgpack.NewDecoder(&w.r).Decode
			return w, nil
		},
	}
}

// gobStream keeps an encoder and a decoder, so that the type is described once for
// a stream. Its messages are those after the first.
func gobStream() codec.Factory {
	return codec.Factory{
		Name: "gob", Note: "one stream, whose encoder and decoder are kept: messages after the first, without the description of the type",
		Open: func(s codec.Shape) (codec.Worker, error) {
			w := &streamWorker{clear: s.Clear, out: s.New()}
			w.encode, w.decode = gob.NewEncoder(&w.w).Encode, gob.NewDecoder(&w.r).Decode
			w.in = s.Value
			first, err := w.Encode(nil)
			if err != nil {
				return nil, err
			}
			return w, w.Decode(slices.Clone(first))
		},
	}
}

// gobFresh begins a stream with every message, as a store of single values has to.
func gobFresh() codec.Factory {
	return codec.Factory{
		Name: "gob-single", Note: "a stream for each message, which describes its type again",
		Open: func(s codec.Shape) (codec.Worker, error) {
			w := &streamWorker{clear: s.Clear, out: s.New()}
			w.encode = func(v any) error { return gob.NewEncoder(&w.w).Encode(v) }
			w.decode = func(v any) error { return gob.NewDecoder(&w.r).Decode(v) }
			return w, nil
		},
	}
}

// streamWorker is a codec that writes to a stream and reads from one.
type streamWorker struct {
	clear   func(any)
	in, out any
	w       bytes.Buffer
	r       bytes.Reader
	encode  func(v any) error // to w
	decode  func(v any) error // from r
}

func (w *streamWorker) Set(v any) error { w.in = v; return nil }
func (w *streamWorker) Result() any     { return w.out }

func (w *streamWorker) Encode([]byte) ([]byte, error) {
	w.w.Reset()
	err := w.encode(w.in)
	return w.w.Bytes(), err
}

func (w *streamWorker) Decode(src []byte) error {
	w.clear(w.out)
	w.r.Reset(src)
	return w.decode(w.out)
}
