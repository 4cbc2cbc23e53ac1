package testengines

import (
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/enginetest"
)

// small limits make the cases on limits quick.
var limits = mainstem.Limits{MaxValue: 1 << 20, MaxBatchBytes: 4 << 20, MaxBatchWrites: 2000}

func must(t *testing.T, log *pebblelog.Log, err error) mainstem.Log {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func pebbleFeatures(o *pebblelog.Options) enginetest.Features {
	f := enginetest.All()
	f.Limits = o.Limits
	f.Restore = func(t *testing.T, backup io.Reader) mainstem.Log {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "restored")
		if err := pebblelog.Restore(t.Context(), backup, dir); err != nil {
			t.Fatal(err)
		}
		log, err := pebblelog.Open(dir, o)
		return must(t, log, err)
	}
	return f
}

func TestPebbleInDirectory(t *testing.T) {
	clock := enginetest.NewClock()
	o := &pebblelog.Options{Now: clock.Now, Limits: limits, Durability: mainstem.OS}
	f := pebbleFeatures(o)
	f.Clock = clock
	open, reopen := enginetest.InDirectory(func(t *testing.T, dir string) mainstem.Log {
		log, err := pebblelog.Open(dir, o)
		return must(t, log, err)
	})
	f.Reopen = reopen
	enginetest.Run(t, f, open)
}

func TestPebbleInMemory(t *testing.T) {
	o := &pebblelog.Options{Limits: limits, SweepEvery: 100 * time.Millisecond} // the real clock
	enginetest.Run(t, pebbleFeatures(o), func(t *testing.T) mainstem.Log {
		log, err := pebblelog.OpenMemory(o)
		return must(t, log, err)
	})
}
