package codec

import (
	"fmt"
	"reflect"

	mainstem "github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/codec/binary"

	"github.com/mainstemdev/mainstem/bench/suites/codec"
)

// binaryCoder knows the type where the program is compiled, as generated code does.
func binaryCoder() codec.Factory {
	return codec.Factory{Name: "mainstem-binary", Note: "binary.Of[T]: the type is known where the program is written", Open: openCoder}
}

func openCoder(s codec.Shape) (codec.Lane, error) {
	switch s.Value.(type) {
	case *string:
		return newCoder[string]()
	case *codec.PID:
		return newCoder[codec.PID]()
	case *codec.ProcessID:
		return newCoder[codec.ProcessID]()
	case *codec.Simple:
		return newCoder[codec.Simple]()
	case *codec.Complex:
		return newCoder[codec.Complex]()
	case *codec.Nested:
		return newCoder[codec.Nested]()
	case *codec.Items:
		return newCoder[codec.Items]()
	case *codec.ItemMaps:
		return newCoder[codec.ItemMaps]()
	}
	return nil, unknownShape(s)
}

func unknownShape(s codec.Shape) error { return fmt.Errorf("shape %s: no such type here", s.Name) }

type coderLane[T any] struct {
	coder   binary.Coder[T]
	in, out *T
}

func newCoder[T any]() (codec.Lane, error) {
	c, err := binary.Of[T](binary.New(nil))
	return &coderLane[T]{coder: c, out: new(T)}, err
}

func (l *coderLane[T]) Set(v any) error                   { l.in = v.(*T); return nil }
func (l *coderLane[T]) Encode(dst []byte) ([]byte, error) { return l.coder.Append(dst, l.in) }
func (l *coderLane[T]) Decode(src []byte) error {
	*l.out = *new(T)
	return l.coder.Decode(src, l.out)
}
func (l *coderLane[T]) Result() any { return l.out }

// binaryRegistry is the same through the interface that views use.
func binaryRegistry() codec.Factory {
	return codec.Factory{
		Name: "mainstem-binary-codec", Note: "through the interface codec.Codec, as views use it",
		Open: func(s codec.Shape) (codec.Lane, error) {
			return &registryLane{registry: binary.New(nil), clear: s.Clear, out: s.New()}, nil
		},
	}
}

type registryLane struct {
	registry mainstem.Codec
	clear    func(any)
	in, out  any
}

func (l *registryLane) Set(v any) error                   { l.in = v; return nil }
func (l *registryLane) Encode(dst []byte) ([]byte, error) { return l.registry.Append(dst, l.in) }
func (l *registryLane) Decode(src []byte) error {
	l.clear(l.out)
	return l.registry.Decode(src, l.out)
}
func (l *registryLane) Result() any { return l.out }

// typeNumber is the number of the shape's type in anyLane's messages.
const typeNumber = 40

// binaryAny writes the type into the message, as between actors that take any.
func binaryAny() codec.Factory {
	return codec.Factory{
		Name: "mainstem-binary-any", Note: "the message says its type; the value comes back as any",
		Open: func(s codec.Shape) (codec.Lane, error) {
			r := binary.New(nil)
			zero := reflect.ValueOf(s.New()).Elem().Interface()
			if r.NameOf(zero) == "" {
				if err := r.RegisterNumber(typeNumber, "shape", zero); err != nil {
					return nil, err
				}
			}
			return &anyLane{registry: r}, nil
		},
	}
}

type anyLane struct {
	registry *binary.Registry
	in, out  any // values, not pointers to them
}

func (l *anyLane) Set(v any) error                   { l.in = reflect.ValueOf(v).Elem().Interface(); return nil }
func (l *anyLane) Encode(dst []byte) ([]byte, error) { return l.registry.AppendAny(dst, l.in) }
func (l *anyLane) Decode(src []byte) (err error) {
	l.out, err = l.registry.DecodeAny(src)
	return err
}

func (l *anyLane) Result() any {
	if l.out == nil {
		return nil
	}
	p := reflect.New(reflect.TypeOf(l.out))
	p.Elem().Set(reflect.ValueOf(l.out))
	return p.Interface()
}
