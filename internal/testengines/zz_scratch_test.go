package testengines

import (
	"os"
	"strconv"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/enginetest"
)

func TestScratch(t *testing.T) {
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	n, _ := strconv.Atoi(os.Getenv("N"))
	if n == 0 {
		t.Skip()
	}
	clock := enginetest.NewClock()
	o := &pebblelog.Options{Now: clock.Now, Limits: limits, Durability: mainstem.OS, HeadCache: 4, MemTableBytes: 256 << 10}
	f := pebbleFeatures(o)
	f.Clock = clock
	f.Seed, f.Programs = seed, n
	if os.Getenv("STEPS") != "" {
		f.Steps, _ = strconv.Atoi(os.Getenv("STEPS"))
	}
	if os.Getenv("DIR") != "" {
		open, reopen := enginetest.InDirectory(func(t *testing.T, dir string) mainstem.Log {
			log, err := pebblelog.Open(dir, o)
			return must(t, log, err)
		})
		f.Reopen = reopen
		enginetest.RunPrograms(t, f, open)
		return
	}
	enginetest.RunPrograms(t, f, func(t *testing.T) mainstem.Log {
		log, err := pebblelog.OpenMemory(o)
		return must(t, log, err)
	})
}
