package pebblelog

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
)

// TestVersionsStandWithTheirKeys reads the properties of the sorted files of a log that holds all
// versions of its keys: Pebble would put those before the newest apart, in value blocks.
func TestVersionsStandWithTheirKeys(t *testing.T) {
	const keys, versions = 20, 100
	dir := t.TempDir()
	open := func() *Log {
		l, err := Open(dir, &Options{Durability: mainstem.OS})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := open()
	for k := range keys {
		b := mainstem.NewBatch()
		b.Ensure("events", mainstem.Policy{})
		for v := range versions {
			b.Put("events", fmt.Appendf(nil, "stream-%d", k), fmt.Appendf(nil, "event %d of %d", v, k))
		}
		if _, err := l.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil { // writes what is in memory to sorted files
		t.Fatal(err)
	}
	l = open()
	defer l.Close()
	levels, err := l.db.SSTables(pebble.WithProperties())
	if err != nil {
		t.Fatal(err)
	}
	var entries uint64
	for _, files := range levels {
		for _, f := range files {
			entries += f.Properties.NumEntries
			if n := f.Properties.NumValuesInValueBlocks; n > 0 {
				t.Errorf("file %v has %d of %d values in value blocks", f.FileNum, n, f.Properties.NumEntries)
			}
		}
	}
	if entries < keys*versions {
		t.Fatalf("the sorted files hold %d entries; want at least the %d that were committed", entries, keys*versions)
	}
}
