package main

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/runner"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/codec"
)

// hexWorker is the contender of docs/bench.md: it writes strings as hexadecimal.
type hexWorker struct {
	value   *string
	decoded string
}

func (w *hexWorker) Set(v any) error {
	s, ok := v.(*string)
	if !ok {
		return suite.Skipf("it knows strings only")
	}
	w.value = s
	return nil
}

func (w *hexWorker) Encode(dst []byte) ([]byte, error) { return fmt.Appendf(dst, "%x", *w.value), nil }

func (w *hexWorker) Decode(src []byte) error {
	_, err := fmt.Sscanf(string(src), "%x", &w.decoded)
	return err
}

func (w *hexWorker) Result() any { return &w.decoded }

// TestTheContenderOfTheGuide: what docs/bench.md shows is measured and checked like
// all others.
func TestTheContenderOfTheGuide(t *testing.T) {
	hex := codec.Factory{Name: "hex", Note: "as hexadecimal digits", Open: func(codec.Shape) (codec.Worker, error) { return new(hexWorker), nil }}
	suites := []suite.Suite{{Name: codec.Name, About: "codecs", Entries: codec.Entries(hex)}}
	files, err := runner.Run(t.Context(), runner.Options{
		Suites: suites, Select: []string{"codec/*/string", "codec/encode/pid"}, Rounds: 4, Time: time.Millisecond, Dir: t.TempDir(),
		Variants: []runner.Variant{{Launch: func(context.Context) (runner.Executor, error) {
			return runner.NewLocal(suites, slog.New(slog.DiscardHandler)), nil
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"encode/string": result.OK, "decode/string": result.OK, "encode/pid": result.Skipped}
	for _, r := range files[0].Rows {
		if r.Status != want[r.Case] {
			t.Errorf("%s is %s (%s), want %s", r.Case, r.Status, r.Reason, want[r.Case])
		}
	}
}
