package stream_test

import (
	"errors"
	"flag"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	contenders "github.com/mainstemdev/mainstem/bench/contenders/stream"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
	"github.com/mainstemdev/mainstem/bench/suite"
	"github.com/mainstemdev/mainstem/bench/suites/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var all = flag.Bool("stream.all", false, "also the cases with a hundred producers, for contenders that sync")

// similar is how the names of cases end that do what others do, with other sizes.
var similar = []string{"/100b", "/10k", "producers-10"}

// Every contender gives the right answers in every case; in short mode in one of
// those that only differ in size. Those on a Kafka server of others are skipped where
// [runnertest.Servers] does not name one, or one of another durability; they say so.
func TestContenders(t *testing.T) {
	addresses := runnertest.Addresses(t)
	for _, e := range contenders.Suite().Entries {
		t.Run(e.Case+"/"+e.Contender, func(t *testing.T) {
			env := &suite.Env{Dir: runnertest.Dir(t), Quick: true, Addresses: addresses, Log: slog.New(slog.DiscardHandler)}
			if e.Skip != nil {
				if reason := e.Skip(env); reason != "" {
					if !strings.HasPrefix(e.Contender, "kafka-") {
						t.Fatal("a contender of this process cannot run: ", reason)
					}
					t.Logf("%s, or to this test in the variable %s", reason, runnertest.Servers)
					return
				}
			}
			if testing.Short() && slices.ContainsFunc(similar, func(s string) bool { return strings.HasSuffix(e.Case, s) }) {
				return
			}
			if !*all && strings.HasSuffix(e.Case, "producers-100") && e.Durability != suite.Memory {
				return // the same code as with ten
			}
			small(t, &e, env)
		})
	}
}

// small runs an entry with few operations, and all its checks.
func small(t *testing.T, e *suite.Entry, env *suite.Env) {
	t.Helper()
	ctx := t.Context()
	r, err := e.Start(ctx, env)
	if errors.Is(err, suite.ErrSkip) && strings.HasPrefix(e.Contender, "kafka-") {
		t.Log(err) // the server has the durability of the other row
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.Close != nil {
		defer func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}()
	}
	for range 2 {
		if r.Prepare != nil {
			if err := r.Prepare(ctx, 12); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Run(ctx, 12, suite.NewRecorder(1)); err != nil {
			t.Fatal(err)
		}
		if err := r.Check(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkSuite(b *testing.B) { stream.Run(b, contenders.Factories()...) }
