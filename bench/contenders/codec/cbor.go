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
		Open: func(s codec.Shape) (codec.Lane, error) {
			enc, err := cbor.EncOptions{}.UserBufferEncMode()
			if err != nil {
				return nil, err
			}
			dec, err := cbor.DecOptions{}.DecMode()
			return &cborLane{clear: s.Clear, out: s.New(), enc: enc, dec: dec}, err
		},
	}
}

type cborLane struct {
	clear   func(any)
	in, out any
	w       bytes.Buffer
	enc     cbor.UserBufferEncMode
	dec     cbor.DecMode
}

func (l *cborLane) Set(v any) error { l.in = v; return nil }
func (l *cborLane) Result() any     { return l.out }

func (l *cborLane) Encode([]byte) ([]byte, error) {
	l.w.Reset()
	err := l.enc.MarshalToBuffer(l.in, &l.w)
	return l.w.Bytes(), err
}

func (l *cborLane) Decode(src []byte) error {
	l.clear(l.out)
	return l.dec.Unmarshal(src, l.out)
}
