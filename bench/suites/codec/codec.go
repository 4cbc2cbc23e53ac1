package codec

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem/bench/suite"
)

// Name is the name of the suite.
const Name = "codec"

// roomy is the capacity of the buffer that is encoded into: more than any shape needs.
const roomy = 4 << 10

// Worker is a codec at one shape. It belongs to one goroutine.
type Worker interface {
	// Set says what Encode encodes: v points to a value of the shape's type. It is
	// not timed and may convert the value to a type of the contender's own.
	Set(v any) error
	// Encode appends the encoding to dst, or writes it into a buffer of the worker; what
	// it returns may change with the next call. It encodes anew each time.
	Encode(dst []byte) ([]byte, error)
	// Decode decodes the whole of src into a variable of the worker that is zero, or
	// equal to a new one, before each call. It may keep src until the next call.
	Decode(src []byte) error
	// Result returns a pointer to what the last Decode decoded, in the shape's type. It
	// is not timed and may convert.
	Result() any
}

// Factory is a contender.
type Factory struct {
	Name string // as in [suite.Entry.Contender]
	Note string // one sentence on how the codec is used
	// Open returns a worker for a shape, or an error that matches [suite.ErrSkip] if the
	// codec cannot carry it. It is not timed.
	Open func(s Shape) (Worker, error)
}

// Entries returns the entries of the contenders: each shape both ways.
func Entries(factories ...Factory) []suite.Entry {
	var entries []suite.Entry
	for _, way := range []struct {
		name, about string
		start       func(Factory, Shape) (*suite.Round, error)
	}{
		{"encode", "encode one value, appending to a buffer", startEncode},
		{"decode", "decode one value into a variable of its type", startDecode},
	} {
		for _, s := range Shapes() {
			for _, f := range factories {
				entries = append(entries, suite.Entry{
					Suite: Name, Case: way.name + "/" + s.Name, Contender: f.Name, Durability: suite.None, Transport: suite.InProcess,
					About: way.about, Note: f.Note, Op: "value",
					Start: func(context.Context, *suite.Env) (*suite.Round, error) { return way.start(f, s) },
				})
			}
		}
	}
	return entries
}

// Run runs the contenders as Go benchmarks.
func Run(b *testing.B, factories ...Factory) { suite.Bench(b, Entries(factories...)) }

// startEncode returns a round that encodes.
func startEncode(f Factory, s Shape) (*suite.Round, error) {
	worker, err := open(f, s)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, 0, roomy)
	var out []byte
	return &suite.Round{
		Run: func(_ context.Context, n int, rec *suite.Recorder) error {
			w := rec.Worker()
			for range n {
				began := w.Begin()
				var err error
				if out, err = worker.Encode(buf); err != nil {
					return err
				}
				w.End(began)
			}
			return nil
		},
		Check: func(context.Context) error {
			reader, err := f.Open(s)
			if err != nil {
				return err
			}
			return decodes(reader, out, s.Value)
		},
		Metrics: size(&out),
	}, nil
}

// startDecode returns a round that decodes.
func startDecode(f Factory, s Shape) (*suite.Round, error) {
	worker, err := open(f, s)
	if err != nil {
		return nil, err
	}
	src, err := encoded(worker, s.Value)
	if err != nil {
		return nil, err
	}
	other, err := encoded(worker, s.Other)
	if err != nil {
		return nil, err
	}
	return &suite.Round{
		// What Run leaves behind must come from Run.
		Prepare: func(context.Context, int) error { return decodes(worker, other, s.Other) },
		Run: func(_ context.Context, n int, rec *suite.Recorder) error {
			w := rec.Worker()
			for range n {
				began := w.Begin()
				if err := worker.Decode(src); err != nil {
					return err
				}
				w.End(began)
			}
			return nil
		},
		Check:   func(context.Context) error { return equal(s.Value, worker.Result()) },
		Metrics: size(&src),
	}, nil
}

func size(encoding *[]byte) func(context.Context) ([]suite.Metric, error) {
	return func(context.Context) ([]suite.Metric, error) {
		return []suite.Metric{{Name: "encoded", Unit: "B", Value: float64(len(*encoding))}}, nil
	}
}

// open returns a worker that has shown that it works, set to the shape's value. Both
// values go through two workers in turn, so that what is remembered from the one
// shows in the other.
func open(f Factory, s Shape) (Worker, error) {
	worker, err := f.Open(s)
	if err != nil {
		return nil, err
	}
	reader, err := f.Open(s)
	if err != nil {
		return nil, err
	}
	for _, v := range []any{s.Other, s.Value, s.Other, s.Value} {
		b, err := encoded(worker, v)
		if err != nil {
			return nil, err
		}
		for _, w := range []Worker{reader, worker} {
			if err := decodes(w, b, v); err != nil {
				return nil, err
			}
		}
	}
	return worker, nil
}

// encoded returns what worker makes of v, in memory of its own.
func encoded(worker Worker, v any) ([]byte, error) {
	if err := worker.Set(v); err != nil {
		return nil, err
	}
	b, err := worker.Encode(make([]byte, 0, roomy))
	return slices.Clone(b), err
}

// decodes reports whether worker decodes b to want.
func decodes(worker Worker, b []byte, want any) error {
	if err := worker.Decode(b); err != nil {
		return err
	}
	return equal(want, worker.Result())
}

func equal(want, got any) error {
	if !reflect.DeepEqual(want, got) {
		return fmt.Errorf("decoded %+v, want %+v", reflect.Indirect(reflect.ValueOf(got)), reflect.Indirect(reflect.ValueOf(want)))
	}
	return nil
}
