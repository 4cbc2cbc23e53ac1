package actor_test

import (
	"testing"

	"go.uber.org/goleak"

	contenders "github.com/mainstemdev/mainstem/bench/contenders/actor"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every contender gives the right answers in every case but the scale tests, twice.
func TestContenders(t *testing.T) {
	for _, e := range contenders.Suite().Entries {
		if e.Scale {
			continue
		}
		t.Run(e.Case+"/"+e.Contender, func(t *testing.T) {
			rounds := 2
			if e.Fresh {
				rounds = 1
			}
			for range 2 {
				if err := runnertest.Try(t, &e, rounds, 101); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
