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
		Open: func(s codec.Shape) (codec.Lane, error) {
			l := &streamLane{clear: s.Clear, out: s.New()}
			l.encode, l.decode = msgpack.NewEncoder(&l.w).Encode, msgpack.NewDecoder(&l.r).Decode
			return l, nil
		},
	}
}

// gobStream keeps an encoder and a decoder, so that the type is described once for
// a stream. Its messages are those after the first.
func gobStream() codec.Factory {
	return codec.Factory{
		Name: "gob", Note: "one stream, whose encoder and decoder are kept: messages after the first, without the description of the type",
		Open: func(s codec.Shape) (codec.Lane, error) {
			l := &streamLane{clear: s.Clear, out: s.New()}
			l.encode, l.decode = gob.NewEncoder(&l.w).Encode, gob.NewDecoder(&l.r).Decode
			l.in = s.Value
			first, err := l.Encode(nil)
			if err != nil {
				return nil, err
			}
			return l, l.Decode(slices.Clone(first))
		},
	}
}

// gobFresh begins a stream with every message, as a store of single values has to.
func gobFresh() codec.Factory {
	return codec.Factory{
		Name: "gob-single", Note: "a stream for each message, which describes its type again",
		Open: func(s codec.Shape) (codec.Lane, error) {
			l := &streamLane{clear: s.Clear, out: s.New()}
			l.encode = func(v any) error { return gob.NewEncoder(&l.w).Encode(v) }
			l.decode = func(v any) error { return gob.NewDecoder(&l.r).Decode(v) }
			return l, nil
		},
	}
}

// streamLane is a codec that writes to a stream and reads from one.
type streamLane struct {
	clear   func(any)
	in, out any
	w       bytes.Buffer
	r       bytes.Reader
	encode  func(v any) error // to w
	decode  func(v any) error // from r
}

func (l *streamLane) Set(v any) error { l.in = v; return nil }
func (l *streamLane) Result() any     { return l.out }

func (l *streamLane) Encode([]byte) ([]byte, error) {
	l.w.Reset()
	err := l.encode(l.in)
	return l.w.Bytes(), err
}

func (l *streamLane) Decode(src []byte) error {
	l.clear(l.out)
	l.r.Reset(src)
	return l.decode(l.out)
}
