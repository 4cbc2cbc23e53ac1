package codec_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/codec"
)

// honest is a worker that works.
type honest struct {
	shape   codec.Shape
	in, out any
}

func (l *honest) Set(v any) error { l.in = v; return nil }
func (l *honest) Encode(dst []byte) ([]byte, error) {
	b, err := json.Marshal(l.in)
	return append(dst, b...), err
}
func (l *honest) Decode(src []byte) error {
	l.out = l.shape.New()
	return json.Unmarshal(src, l.out)
}
func (l *honest) Result() any { return l.out }

// remembers encodes once, and always returns that.
type remembers struct {
	honest
	first []byte
}

func (l *remembers) Encode(dst []byte) ([]byte, error) {
	if l.first == nil {
		l.first, _ = l.honest.Encode(nil)
	}
	return l.first, nil
}

// knows returns the shape's value and decodes nothing.
type knows struct{ honest }

func (l *knows) Decode([]byte) error { return nil }
func (l *knows) Result() any         { return l.shape.Value }

// tires works until the timed part, and then does nothing.
type tires struct {
	honest
	decodes, encodes, after int
}

func (l *tires) Decode(src []byte) error {
	if l.decodes++; l.decodes > l.after {
		return nil
	}
	return l.honest.Decode(src)
}

func (l *tires) Encode(dst []byte) ([]byte, error) {
	if l.encodes++; l.encodes > l.after {
		return dst, nil
	}
	return l.honest.Encode(dst)
}

// once runs an entry for one small round, with its checks.
func once(t *testing.T, e suite.Entry) error {
	t.Helper()
	ctx := t.Context()
	r, err := e.Start(ctx, runnertest.Env(t, nil))
	if err != nil {
		return err
	}
	if r.Prepare != nil {
		if err := r.Prepare(ctx, 2); err != nil {
			return err
		}
	}
	return errors.Join(r.Run(ctx, 2, suite.NewRecorder(1)), r.Check(ctx))
}

func entries(open func(codec.Shape) codec.Worker) []suite.Entry {
	return codec.Entries(codec.Factory{Name: "x", Open: func(s codec.Shape) (codec.Worker, error) { return open(s), nil }})
}

func TestCheats(t *testing.T) {
	for name, open := range map[string]func(codec.Shape) codec.Worker{
		"remembers": func(s codec.Shape) codec.Worker { return &remembers{honest: honest{shape: s}} },
		"knows":     func(s codec.Shape) codec.Worker { return &knows{honest{shape: s}} },
		"tires":     func(s codec.Shape) codec.Worker { return &tires{honest: honest{shape: s}, after: 5} },
	} {
		for _, e := range entries(open) {
			if err := once(t, e); err == nil {
				t.Errorf("%s: a worker that %s was not caught", e.Case, name)
			}
		}
	}
	for _, e := range entries(func(s codec.Shape) codec.Worker { return &honest{shape: s} }) {
		if err := once(t, e); err != nil {
			t.Errorf("%s: an honest worker was refused: %v", e.Case, err)
		}
	}
}

func TestShapesDiffer(t *testing.T) {
	shapes := codec.Shapes()
	if len(shapes) != 8 {
		t.Fatal(len(shapes))
	}
	for _, s := range shapes {
		a, _ := json.Marshal(s.Value)
		b, _ := json.Marshal(s.Other)
		if string(a) == string(b) {
			t.Error(s.Name, string(a))
		}
	}
}

func ExampleSummarize() {
	s := codec.Summarize([]codec.Row{
		{Case: "encode/pid", Contender: "a", Time: 20, Encoded: 9},
		{Case: "encode/pid", Contender: "b", Time: 21, Encoded: 12, Same: true},
		{Case: "encode/pid", Contender: "c", Time: 64, Allocs: 2, Encoded: 40},
	})
	var out strings.Builder
	_ = s.WriteMarkdown(&out)
	table, _, _ := strings.Cut(out.String(), "###  ")
	_, _ = os.Stdout.WriteString(strings.Join(strings.SplitN(table, "\n", 7)[:5], "\n"))
	// Output:
	// ### Encode: times as long as the fastest
	//
	// | shape | fastest | time | a | b | c |
	// |---|---:|---:|---:|---:|---:|
	// | pid | a = b | 20 ns | 1.00× | 1.05× | 3.20× |
}

// A worker that does not carry a shape is skipped with its reason.
func TestSkipped(t *testing.T) {
	e := codec.Entries(codec.Factory{Name: "x", Open: func(codec.Shape) (codec.Worker, error) { return nil, suite.Skipf("no maps") }})[0]
	if _, err := e.Start(context.Background(), nil); !errors.Is(err, suite.ErrSkip) || err.Error() != "no maps" {
		t.Fatal(err)
	}
}
