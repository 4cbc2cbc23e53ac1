package crashtest_test

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
)

// A workload is generated with a log that nothing disturbs, run on a file system
// that can crash, and verified on what the crash left.
func Example() {
	ctx := context.Background()
	clock := new(crashtest.Clock)
	ref, err := pebblelog.OpenMemory(&pebblelog.Options{Now: clock.Now})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ref.Close()
	w, err := crashtest.Generate(ctx, crashtest.Shape{Seed: 1, Steps: 10, Durability: mainstem.Fsync}, ref, clock)
	if err != nil {
		fmt.Println(err)
		return
	}

	disk := vfs.NewCrashableMem()
	log, err := pebblelog.Open("log", &pebblelog.Options{FS: disk, Now: clock.Now})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer log.Close()
	for n := range w.Steps {
		if err := w.Do(ctx, log, clock, n+1); err != nil {
			fmt.Println(err)
		}
	}
	crashed := disk.CrashClone(vfs.CrashCloneCfg{}) // only what was synced

	again, err := pebblelog.Open("log", &pebblelog.Options{FS: crashed, Now: clock.Now})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer again.Close()
	n, err := w.Verify(ctx, again, clock, len(w.Steps), len(w.Steps))
	fmt.Println(n, "steps survived;", err)
	// Output: 10 steps survived; <nil>
}
