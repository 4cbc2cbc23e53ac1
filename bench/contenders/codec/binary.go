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

func openCoder(s codec.Shape) (codec.Worker, error) {
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

type coderWorker[T any] struct {
	coder   binary.Coder[T]
	in, out *T
}

func newCoder[T any]() (codec.Worker, error) {
	c, err := binary.Of[T](binary.New(nil))
	return &coderWorker[T]{coder: c, out: new(T)}, err
}

func (w *coderWorker[T]) Set(v any) error                   { w.in = v.(*T); return nil }
func (w *coderWorker[T]) Encode(dst []byte) ([]byte, error) { return w.coder.Append(dst, w.in) }
func (w *coderWorker[T]) Decode(src []byte) error {
	*w.out = *new(T)
	return w.coder.Decode(src, w.out)
}
func (w *coderWorker[T]) Result() any { return w.out }

// binaryRegistry is the same through the interface that views use.
func binaryRegistry() codec.Factory {
	return codec.Factory{
		Name: "mainstem-binary-codec", Note: "through the interface codec.Codec, as views use it",
		Open: func(s codec.Shape) (codec.Worker, error) {
			return &registryWorker{registry: binary.New(nil), clear: s.Clear, out: s.New()}, nil
		},
	}
}

type registryWorker struct {
	registry mainstem.Codec
	clear    func(any)
	in, out  any
}

func (w *registryWorker) Set(v any) error                   { w.in = v; return nil }
func (w *registryWorker) Encode(dst []byte) ([]byte, error) { return w.registry.Append(dst, w.in) }
func (w *registryWorker) Decode(src []byte) error {
	w.clear(w.out)
	return w.registry.Decode(src, w.out)
}
func (w *registryWorker) Result() any { return w.out }

// typeNumber is the number of the shape's type in anyWorker's messages.
const typeNumber = 40

// binaryAny writes the type into the message, as between actors that take any.
func binaryAny() codec.Factory {
	return codec.Factory{
		Name: "mainstem-binary-any", Note: "the message says its type; the value comes back as any",
		Open: func(s codec.Shape) (codec.Worker, error) {
			r := binary.New(nil)
			zero := reflect.ValueOf(s.New()).Elem().Interface()
			if r.NameOf(zero) == "" {
				if err := r.RegisterNumber(typeNumber, "shape", zero); err != nil {
					return nil, err
				}
			}
			return &anyWorker{registry: r}, nil
		},
	}
}

type anyWorker struct {
	registry *binary.Registry
	in, out  any // values, not pointers to them
}

func (w *anyWorker) Set(v any) error                   { w.in = reflect.ValueOf(v).Elem().Interface(); return nil }
func (w *anyWorker) Encode(dst []byte) ([]byte, error) { return w.registry.AppendAny(dst, w.in) }
func (w *anyWorker) Decode(src []byte) (err error) {
	w.out, err = w.registry.DecodeAny(src)
	return err
}

func (w *anyWorker) Result() any {
	if w.out == nil {
		return nil
	}
	p := reflect.New(reflect.TypeOf(w.out))
	p.Elem().Set(reflect.ValueOf(w.out))
	return p.Interface()
}
