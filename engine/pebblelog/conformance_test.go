package pebblelog_test

import (
	"io"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/enginetest"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// small are limits that the suite reaches quickly.
var small = mainstem.Limits{MaxValue: 256 << 10, MaxBatchBytes: 1 << 20, MaxBatchWrites: 2000}

func TestConformanceDirectory(t *testing.T) {
	clock := enginetest.NewClock()
	options := &pebblelog.Options{Now: clock.Now, Monotonic: clock.Monotonic, Limits: small}
	f := enginetest.All()
	f.Patience = testkit.Patience
	f.Clock, f.Limits = clock, small
	open, reopen := enginetest.InDirectory(func(t *testing.T, dir string) mainstem.Log {
		return must(t)(pebblelog.Open(dir, options))
	})
	f.Reopen = reopen
	f.Restore = restore(options)
	enginetest.Run(t, f, open)
}

func TestConformanceMemory(t *testing.T) {
	clock := enginetest.NewClock()
	f := enginetest.All()
	f.Patience = testkit.Patience
	f.Clock, f.Limits = clock, small
	f.Restore = restore(&pebblelog.Options{Now: clock.Now, Monotonic: clock.Monotonic, Limits: small})
	enginetest.Run(t, f, func(t *testing.T) mainstem.Log {
		// A tiny memtable and cache of key states: data moves to sorted files within a case.
		return must(t)(pebblelog.OpenMemory(&pebblelog.Options{Now: clock.Now, Monotonic: clock.Monotonic, Limits: small, MemTableBytes: 256 << 10, KeyStateCache: 4}))
	})
}

func must(t *testing.T) func(l *pebblelog.Log, err error) mainstem.Log {
	return func(l *pebblelog.Log, err error) mainstem.Log {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

func restore(o *pebblelog.Options) func(t *testing.T, backup io.Reader) mainstem.Log {
	return func(t *testing.T, backup io.Reader) mainstem.Log {
		dir := t.TempDir()
		if err := pebblelog.Restore(t.Context(), backup, dir); err != nil {
			t.Fatal(err)
		}
		return must(t)(pebblelog.Open(dir, o))
	}
}
