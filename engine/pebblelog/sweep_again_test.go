package pebblelog

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// fullDisk is a file system in memory that has no space left while full is set.
type fullDisk struct {
	vfs.FS
	full atomic.Bool
}

func (d *fullDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if d.full.Load() {
		return vfs.DiskUsage{}, nil
	}
	return vfs.DiskUsage{AvailBytes: 1 << 40}, nil
}

// TestSweepIsRepeated has a sweep fail. The sweeper repeats it, although nothing else expires.
func TestSweepIsRepeated(t *testing.T) { synctest.Test(t, testSweepIsRepeated) }

func testSweepIsRepeated(t *testing.T) {
	disk := &fullDisk{FS: vfs.NewMem()}
	l, err := Open("/log", &Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	records := func() int64 {
		info, err := l.Space(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		return info.Records
	}
	var b mainstem.Batch
	b.Ensure("s", mainstem.Policy{NoFeed: true})
	b.Add(mainstem.Write{Space: "s", Key: []byte("k"), TTL: time.Second})
	if _, err := l.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	disk.full.Store(true)
	expired := time.Now().Add(2 * time.Second)
	testkit.Eventually(t, "the record expires", func() bool { return time.Now().After(expired) })
	synctest.Wait() // for the sweep
	if n := records(); n != 1 {
		t.Fatalf("the space holds %d records although the disk is full", n)
	}
	disk.full.Store(false)
	testkit.Eventually(t, "the record is removed", func() bool { return records() == 0 })
}
