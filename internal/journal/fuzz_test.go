package journal_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/crashtest"
	"github.com/mainstemdev/mainstem/internal/journal"
)

// FuzzOpen puts arbitrary bytes in the place of one segment of three, or writes them over
// a part of it, and opens the journal: nothing panics, no frame is invented, and what is
// opened can be read again and go on.
func FuzzOpen(f *testing.F) {
	fs := vfs.NewMem()
	j, err := journal.Open(fs, dir, small())
	if err != nil {
		f.Fatal(err)
	}
	for serial := 1; serial < 16; serial++ {
		if serial%5 == 0 {
			if err := j.Rotate(); err != nil {
				f.Fatal(err)
			}
		}
		if _, err := j.Commit(mainstem.Fsync, plain(serial)); err != nil {
			f.Fatal(err)
		}
	}
	im, err := crashtest.ReadImage(fs, dir)
	if err != nil {
		f.Fatal(err)
	}
	if err := j.Close(); err != nil {
		f.Fatal(err)
	}
	paths := im.Paths()
	for i, p := range paths {
		f.Add(uint8(i), uint16(0), false, im[p][:min(len(im[p]), 1200)])
		f.Add(uint8(i), uint16(512), true, im[p][512:700])
		f.Add(uint8(i), uint16(600), true, make([]byte, 64))
	}
	f.Fuzz(func(t *testing.T, file uint8, at uint16, over bool, p []byte) {
		path := paths[int(file)%len(paths)]
		fs, err := im.Apply(crashtest.Damage{Harm: func(old []byte) []byte {
			if !over {
				return append([]byte{}, p...)
			}
			old = slices.Clone(old)
			copy(old[int(at)%len(old):], p)
			return old
		}, Path: path}).FS()
		if err != nil {
			t.Fatal(err)
		}
		same, _ := crashtest.ReadImage(fs, dir)
		openFuzzed(t, fs, bytes.Equal(same[path], im[path]))
	})
}

// openFuzzed opens a damaged journal; unharmed means that it is not.
func openFuzzed(t *testing.T, fs vfs.FS, unharmed bool) {
	var serials []int
	j, err := journal.Open(fs, dir, journal.Options{Replay: takePlain(&serials)})
	if err != nil {
		if k := mainstem.KindOf(err); k != mainstem.KindCorrupt && k != mainstem.KindUnsupported || unharmed {
			t.Fatal(err)
		}
		return
	}
	defer j.Close()
	if unharmed && len(serials) != 15 {
		t.Errorf("%d frames of an unharmed journal", len(serials))
	}
	if _, err := j.Commit(mainstem.Fsync, plain(len(serials)+1)); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range j.Read(1) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != len(serials)+1 {
		t.Errorf("%d frames were replayed and 1 added, but %d are read", len(serials), n)
	}
}
