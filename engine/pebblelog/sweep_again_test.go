package pebblelog

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
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
	records := func(after time.Duration) int64 {
		t.Helper()
		<-time.After(after)
		synctest.Wait()
		info, err := l.Space(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		return info.Records
	}
	var b mainstem.Batch
	b.Ensure("s", mainstem.Policy{NoFeed: true})
	b.Add(mainstem.Write{Space: "s", Key: []byte("k"), TTL: time.Minute})
	if _, err := l.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	disk.full.Store(true)
	if n := records(2 * time.Minute); n != 1 {
		t.Fatalf("the space holds %d records although the disk is full", n)
	}
	disk.full.Store(false)
	if n := records(DefaultSweepEvery); n != 0 {
		t.Errorf("%d records that have expired are still there", n)
	}
}
