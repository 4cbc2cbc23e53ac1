package codec

import (
	"bytes"

	"github.com/fxamacker/cbor/v2"

	"github.com/mainstemdev/mainstem/bench/suites/codec"
)

// cborRFC8949 encodes into a buffer that is kept.
func cborRFC8949() codec.Factory {
	return codec.Factory{
		Name: "cbor", Note: "fxamacker/cbor, into a buffer that is kept",
		Open: func(s codec.Shape) (codec.Worker, error) {
			enc, err := cbor.EncOptions{}.UserBufferEncMode()
			if err != nil {
				return nil, err
			}
			dec, err := cbor.DecOptions{}.DecMode()
			return &cborWorker{clear: s.Clear, out: s.New(), enc: enc, dec: dec}, err
		},
	}
}

type cborWorker struct {
	clear   func(any)
	in, out any
	w       bytes.Buffer
	enc     cbor.UserBufferEncMode
	dec     cbor.DecMode
}

func (w *cborWorker) Set(v any) error { w.in = v; return nil }
func (w *cborWorker) Result() any     { return w.out }

func (w *cborWorker) Encode([]byte) ([]byte, error) {
	w.w.Reset()
	err := w.enc.MarshalToBuffer(w.in, &w.w)
	return w.w.Bytes(), err
}

func (w *cborWorker) Decode(src []byte) error {
	w.clear(w.out)
	return w.dec.Unmarshal(src, w.out)
}
