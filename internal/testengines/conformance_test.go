package testengines

import (
	"io"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/enginetest"
)

// small limits make the cases on limits quick.
var small = mainstem.Limits{MaxValue: 1 << 20, MaxBatchBytes: 4 << 20, MaxBatchWrites: 2000}

// TestConformance runs the suite with options that differ from those of the
// engine's own tests: a small cache of heads and tiny memtables in a directory,
// so that data is read back from files, and in memory with the real clock.
func TestConformance(t *testing.T) {
	t.Run("directory", func(t *testing.T) {
		t.Parallel()
		clock := enginetest.NewClock()
		o := &pebblelog.Options{Now: clock.Now, Monotonic: clock.Monotonic, Limits: small, Durability: mainstem.OS, KeyStateCache: 4, MemTableBytes: 256 << 10}
		f := features(o)
		f.Clock = clock
		open, reopen := enginetest.InDirectory(func(t *testing.T, dir string) mainstem.Log {
			return must(t)(pebblelog.Open(dir, o))
		})
		f.Reopen = reopen
		enginetest.Run(t, f, open)
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		o := &pebblelog.Options{Limits: small, SweepEvery: 100 * time.Millisecond}
		enginetest.Run(t, features(o), func(t *testing.T) mainstem.Log {
			return must(t)(pebblelog.OpenMemory(o))
		})
	})
}

func features(o *pebblelog.Options) enginetest.Features {
	f := enginetest.All()
	f.Limits = o.Limits
	f.Restore = func(t *testing.T, backup io.Reader) mainstem.Log {
		t.Helper()
		dir := t.TempDir()
		if err := pebblelog.Restore(t.Context(), backup, dir); err != nil {
			t.Fatal(err)
		}
		return must(t)(pebblelog.Open(dir, o))
	}
	return f
}

func must(t *testing.T) func(log *pebblelog.Log, err error) mainstem.Log {
	return func(log *pebblelog.Log, err error) mainstem.Log {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return log
	}
}
