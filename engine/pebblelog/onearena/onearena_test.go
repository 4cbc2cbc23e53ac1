//go:build cgo && linux && amd64 && !race

// Where the arenas of malloc are is known of amd64. A race detector has Pebble take its memory from Go.

package onearena

import (
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const childVariable = "ONEARENA_TEST_CHILD"

// TestThreadsShareAnArena counts the arenas of processes that read blocks through a cache of Pebble
// on many threads.
func TestThreadsShareAnArena(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		readOnManyThreads(t)
		t.Logf("arenas=%d", arenas(t))
		return
	}
	for _, c := range []struct {
		name, variable string
		want           string
	}{
		{"all threads in one", "", `arenas=0\n`},
		{"unless the environment says something else", "MALLOC_ARENA_MAX=8", `arenas=[1-9]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestThreadsShareAnArena$")
			cmd.Env = []string{childVariable + "=1", c.variable}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			if !regexp.MustCompile(c.want).Match(out) {
				t.Errorf("printed %q, want %s", out, c.want)
			}
		})
	}
}

// readOnManyThreads reads keys of a database through a cache that holds few of its blocks.
func readOnManyThreads(t *testing.T) {
	const keys = 5000
	key := func(i int) []byte { return fmt.Appendf(nil, "key-%05d", i) }
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), CacheSize: 256 << 10, MemTableSize: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i := range keys {
		if err := db.Set(key(i), make([]byte, 100), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	var threads sync.WaitGroup
	for n := range 8 {
		threads.Go(func() {
			runtime.LockOSThread() // so that all of them are threads
			for i := n; i < keys; i += 13 {
				_, closer, err := db.Get(key(i))
				if err != nil {
					t.Error(err)
					return
				}
				_ = closer.Close()
			}
		})
	}
	threads.Wait()
}

// arenas returns how many arenas malloc has besides the first one. Each begins at a multiple of its
// size, 64 MiB, and what it has not used yet may not be accessed. The heap of Go, which is smaller
// here, looks the same, and its address is random.
func arenas(t *testing.T) int {
	const size = 64 << 20
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	ofGo := uint64(reflect.ValueOf(maps).Pointer())
	n, begin, used := 0, uint64(0), uint64(0) // of the mapping before
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		var access string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &access); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if access == "---p" && from == used && to == begin+size && begin%size == 0 && (ofGo < begin || ofGo >= to) {
			n++
		}
		begin, used = from, to
	}
	return n
}
