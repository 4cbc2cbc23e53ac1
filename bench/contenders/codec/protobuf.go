package codec

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/mainstemdev/mainstem/bench/suites/codec"
)

// protobuf is the reference implementation.
func protobuf() codec.Factory {
	return codec.Factory{
		Name: "protobuf", Note: "google.golang.org/protobuf, MarshalAppend into a message of its own",
		Open: func(s codec.Shape) (codec.Worker, error) {
			out, err := messageOf(s.New())
			return &protoWorker{out: out}, err
		},
	}
}

type protoWorker struct{ in, out message }

func (w *protoWorker) Set(v any) (err error) { w.in, err = messageOf(v); return err }
func (w *protoWorker) Result() any           { return valueOf(w.out) }
func (w *protoWorker) Encode(dst []byte) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(dst, w.in)
}
func (w *protoWorker) Decode(src []byte) error { return proto.Unmarshal(src, w.out) } // it resets the message

// vtprotobuf is generated code for the same messages.
func vtprotobuf() codec.Factory {
	return codec.Factory{
		Name: "vtprotobuf", Note: "code that planetscale/vtprotobuf generates",
		Open: func(s codec.Shape) (codec.Worker, error) {
			out, err := messageOf(s.New())
			return &vtWorker{protoWorker{out: out}, clearing(out)}, err
		},
	}
}

type vtWorker struct {
	protoWorker
	clear func()
}

func (w *vtWorker) Encode(dst []byte) ([]byte, error) {
	size := w.in.SizeVT()
	dst = slices.Grow(dst, size)[:size]
	n, err := w.in.MarshalToSizedBufferVT(dst)
	return dst[:n], err
}

func (w *vtWorker) Decode(src []byte) error {
	w.clear()
	return w.out.UnmarshalVT(src)
}
