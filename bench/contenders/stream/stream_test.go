package stream_test

import (
	"errors"
	"flag"
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
			env := runnertest.Env(t, addresses)
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
			err := suite.Try(t.Context(), &e, env, 2, 12)
			if errors.Is(err, suite.ErrSkip) && strings.HasPrefix(e.Contender, "kafka-") {
				t.Log(err) // the server has the durability of the other row
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func BenchmarkSuite(b *testing.B) { stream.Run(b, contenders.Factories()...) }
