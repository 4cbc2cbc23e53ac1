package main

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/bench/internal/race"
	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/codec"
)

// hexLane is the contender of docs/bench.md: it writes strings as hexadecimal.
type hexLane struct {
	value   *string
	decoded string
}

func (l *hexLane) Set(v any) error {
	s, ok := v.(*string)
	if !ok {
		return suite.Skipf("it knows strings only")
	}
	l.value = s
	return nil
}

func (l *hexLane) Encode(dst []byte) ([]byte, error) { return fmt.Appendf(dst, "%x", *l.value), nil }

func (l *hexLane) Decode(src []byte) error {
	_, err := fmt.Sscanf(string(src), "%x", &l.decoded)
	return err
}

func (l *hexLane) Result() any { return &l.decoded }

// TestTheContenderOfTheGuide: what docs/bench.md shows is measured and checked like
// all others.
func TestTheContenderOfTheGuide(t *testing.T) {
	hex := codec.Factory{Name: "hex", Note: "as hexadecimal digits", Open: func(codec.Shape) (codec.Lane, error) { return new(hexLane), nil }}
	suites := []suite.Suite{{Name: codec.Name, About: "codecs", Entries: codec.Entries(hex)}}
	files, err := race.Run(t.Context(), race.Options{
		Suites: suites, Select: []string{"codec/*/string", "codec/encode/pid"}, Rounds: 4, Time: time.Millisecond, Dir: t.TempDir(),
		Variants: []race.Variant{{Launch: func(context.Context) (race.Runner, error) {
			return race.NewLocal(suites, slog.New(slog.DiscardHandler)), nil
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
