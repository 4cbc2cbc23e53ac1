package runnertest

import (
	"os"
	"testing"
)

// memoryNeeded is how much a directory in memory must have free: some stores map
// files of gigabytes, and die when a page of them cannot be had.
const memoryNeeded = 6 << 30

// Dir returns an empty directory for a contender whose answers are tested, not its
// speed: in memory if the system has such a place, because most of what a test of
// dozens of stores does is wait for the disk. It is removed when the test ends.
func Dir(t testing.TB) string {
	t.Helper()
	place := memory()
	if place == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(place, "bench-test-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
