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
		Open: func(s codec.Shape) (codec.Lane, error) {
			out, err := messageOf(s.New())
			return &protoLane{out: out}, err
		},
	}
}

type protoLane struct{ in, out message }

func (l *protoLane) Set(v any) (err error) { l.in, err = messageOf(v); return err }
func (l *protoLane) Result() any           { return valueOf(l.out) }
func (l *protoLane) Encode(dst []byte) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(dst, l.in)
}
func (l *protoLane) Decode(src []byte) error { return proto.Unmarshal(src, l.out) } // it resets the message

// vtprotobuf is generated code for the same messages.
func vtprotobuf() codec.Factory {
	return codec.Factory{
		Name: "vtprotobuf", Note: "code that planetscale/vtprotobuf generates",
		Open: func(s codec.Shape) (codec.Lane, error) {
			out, err := messageOf(s.New())
			return &vtLane{protoLane{out: out}, clearing(out)}, err
		},
	}
}

type vtLane struct {
	protoLane
	clear func()
}

func (l *vtLane) Encode(dst []byte) ([]byte, error) {
	size := l.in.SizeVT()
	dst = slices.Grow(dst, size)[:size]
	n, err := l.in.MarshalToSizedBufferVT(dst)
	return dst[:n], err
}

func (l *vtLane) Decode(src []byte) error {
	l.clear()
	return l.out.UnmarshalVT(src)
}
