package pebblelog_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/format"
)

// TestCreationInterruptedAtItsEnd opens a log whose creation ended before it removed the file
// CREATING. If the identity of the log is lost later, the log must not be taken for one that was
// never finished.
func TestCreationInterruptedAtItsEnd(t *testing.T) {
	const creating = "/log/CREATING"
	mem := vfs.NewMem()
	o := &pebblelog.Options{FS: mem}
	l := mustOpen(t, o)
	commitOne(t, l, func(b *mainstem.Batch) { b.Ensure("s", mainstem.Policy{}) })
	closeLog(t, l)
	f, err := mem.Create(creating, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	closeLog(t, mustOpen(t, &pebblelog.Options{FS: mem, ReadOnly: true}))
	if _, err := mem.Stat(creating); err != nil {
		t.Errorf("opening the log to be read has removed the file: %v", err)
	}
	closeLog(t, mustOpen(t, o))
	if _, err := mem.Stat(creating); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	if err := mem.Remove("/log/" + format.IdentityName); err != nil {
		t.Fatal(err)
	}
	if _, err := pebblelog.Open("/log", o); !errors.Is(err, mainstem.ErrCorrupt) {
		t.Errorf("without its identity: %v, want Corrupt", err)
	}
}
