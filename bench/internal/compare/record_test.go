package compare_test

import (
	"context"
	"encoding/json"
	"flag"
	"hash/crc32"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/runner"
	"github.com/mainstemdev/mainstem/bench/suite"
)

var record = flag.Bool("record", false, "measure testdata/recorded.json anew, in about a minute")

const recordedFile = "testdata/recorded.json"

// recorded are rounds that were really measured, of two builds that took turns.
type recorded struct {
	Unchanged []twice `json:"unchanged"` // the same program
	Slowed    []twice `json:"slowed"`    // the new one does a fifth more in one path
}

// twice is a comparison and its confirmation.
type twice struct {
	First pair `json:"first"`
	Again pair `json:"again"`
}

// pair is nanoseconds for one operation of each round, before and now.
type pair struct {
	Old []float64 `json:"old"`
	New []float64 `json:"new"`
}

const pairs = 10

// TestRecord measures what the other tests judge.
func TestRecord(t *testing.T) {
	if !*record {
		if _, err := os.Stat(recordedFile); err != nil {
			t.Fatalf("%v: measure it with go test -record", err)
		}
		return
	}
	var all recorded
	for range pairs {
		all.Unchanged = append(all.Unchanged, twice{measure(t, 0), measure(t, 0)})
		all.Slowed = append(all.Slowed, twice{measure(t, 5), measure(t, 5)})
	}
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recordedFile, append(data, '\n'), 0o666); err != nil {
		t.Fatal(err)
	}
}

// blocks is what an operation sums up: ten blocks of memory.
const blocks = 10

// measure compares two variants of a program that sums up blocks. The new one does one
// in every extra blocks twice: with 5, a fifth more.
func measure(t *testing.T, extra int) pair {
	build := func(extra int) []suite.Suite {
		block := make([]byte, 4096)
		sum := uint32(0)
		return []suite.Suite{{Name: "sum", Entries: []suite.Entry{{
			Suite: "sum", Case: "blocks", Contender: "mainstem", Durability: suite.None,
			Start: func(context.Context, *suite.Env) (*suite.Round, error) {
				return &suite.Round{Run: func(ctx context.Context, n int, rec *suite.Recorder) error {
					return suite.Loop(ctx, n, rec, func(context.Context, int) error {
						for i := range blocks {
							sum = crc32.Update(sum, crc32.IEEETable, block)
							if extra > 0 && i%extra == 0 {
								sum = crc32.Update(sum, crc32.IEEETable, block)
							}
						}
						return nil
					})
				}}, nil
			},
		}}}}
	}
	variant := func(name string, suites []suite.Suite) runner.Variant {
		return runner.Variant{Name: name, Launch: func(context.Context) (runner.Executor, error) {
			return runner.NewLocal(suites, slog.New(slog.DiscardHandler)), nil
		}}
	}
	before := build(0)
	// Many short rounds: on a busy machine some of them are left alone.
	files, err := runner.Run(t.Context(), runner.Options{
		Suites: before, Rounds: 100, Time: time.Millisecond, Dir: t.TempDir(),
		Variants: []runner.Variant{variant("before", before), variant("now", build(extra))},
	})
	if err != nil {
		t.Fatal(err)
	}
	ns := func(s result.Sample) float64 { return float64(int(s.Time)) }
	return pair{files[0].Rows[0].Each(ns), files[1].Rows[0].Each(ns)}
}
