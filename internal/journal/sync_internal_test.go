package journal

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A sync that begins between the two stores of an append covers the frame and does not know its
// position. A later Sync of the frame must end, though there is nothing left to sync.
func TestSyncInTheMiddleOfAnAppend(t *testing.T) {
	j, err := Open(vfs.NewMem(), "journal", Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if _, err := j.Append([]Frame{{Count: 1, Effects: []byte("first")}}); err != nil {
		t.Fatal(err)
	}

	// What Append does, with a sync in between.
	frames := []Frame{{Count: 1, Effects: []byte("second")}}
	j.mu.Lock()
	size, err := j.placeLocked(frames)
	if err != nil {
		t.Fatal(err)
	}
	seg := j.current.Load()
	sum := j.encodeLocked(seg, frames)
	if f := j.writeLocked(seg, size); f != nil {
		t.Fatal(f.unknown())
	}
	seg.sum = sum
	seg.end.Store(seg.end.Load() + size)
	j.syncs.acquire()
	failed := j.syncCurrent()
	j.syncs.release()
	if failed != nil {
		t.Fatal(failed.unknown())
	}
	last := frames[0].Last()
	seg.last.Store(uint64(last))
	j.written.Store(uint64(last))
	j.mu.Unlock()

	if err := j.Sync(last); err != nil || j.Durable() != last {
		t.Errorf("%v; durable up to %d, want %d", err, j.Durable(), last)
	}
}
