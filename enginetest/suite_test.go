package enginetest_test

import (
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// small limits make the cases on limits quick.
var small = mainstem.Limits{MaxValue: 1 << 20, MaxBatchBytes: 4 << 20, MaxBatchWrites: 2000}

func reopen(_ *testing.T, log mainstem.Log) mainstem.Log { return log.(*model.Log).Reopen() }

func TestModel(t *testing.T) {
	f := enginetest.All()
	f.Patience = testkit.Patience
	f.Clock, f.Limits, f.Reopen = enginetest.NewClock(), small, reopen
	f.Programs = 200
	enginetest.Run(t, f, func(*testing.T) mainstem.Log {
		return model.New(&model.Options{Now: f.Clock.Now, Monotonic: f.Clock.Monotonic, Limits: f.Limits})
	})
}

// TestModelInRealTime has no clock to turn: cases on expiry wait.
func TestModelInRealTime(t *testing.T) {
	t.Parallel() // it mostly waits
	f := enginetest.All()
	f.Patience = testkit.Patience
	f.Limits, f.Reopen = small, reopen
	enginetest.Run(t, f, func(*testing.T) mainstem.Log { return model.New(&model.Options{Limits: f.Limits}) })
}

func TestInDirectory(t *testing.T) {
	dirs := map[mainstem.Log]string{}
	at := func(_ *testing.T, dir string) mainstem.Log {
		log := model.New(nil)
		dirs[log] = dir
		return log
	}
	open, reopen := enginetest.InDirectory(at)
	a, b := open(t), open(t)
	if dirs[a] == dirs[b] || dirs[a] == "" {
		t.Fatalf("two logs were opened in %q and %q", dirs[a], dirs[b])
	}
	for range 2 {
		again := reopen(t, a)
		if dirs[again] != dirs[a] {
			t.Fatalf("a log of %q was reopened in %q", dirs[a], dirs[again])
		}
		a = again
	}
}
