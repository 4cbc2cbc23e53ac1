package crashtest_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
)

// firstCommits is how many commits a new log takes before its process is killed.
const firstCommits = 300

// roomy are options under which no commit of these tests leaves the first segment of the journal.
func roomy(fs vfs.FS) *pebblelog.Options {
	o := options(fs, new(crashtest.Clock), mainstem.Fsync)
	o.MemTableBytes = 8 << 20
	return o
}

// killedNew returns the files of a new log whose process was killed after firstCommits
// commits at fsync, and the path of the segment of the journal that holds them.
func killedNew(t *testing.T) (crashtest.Image, string) {
	t.Helper()
	fs := vfs.NewCrashableMem()
	l, err := pebblelog.Open(dir, roomy(fs))
	if err != nil {
		t.Fatal(err)
	}
	for i := range firstCommits {
		if err := put(l, fmt.Sprintf("key-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	im, err := crashtest.ReadImage(after, dir)
	if err != nil {
		t.Fatal(err)
	}
	newest := ""
	for name := range im {
		if strings.HasSuffix(name, ".journal") && (newest == "" || name > newest) {
			newest = name
		}
	}
	delete(im, dir+"/OWNER") // rewritten by whichever process opens the directory
	if newest == "" {
		t.Fatalf("no segment of the journal: %v", im.Paths())
	}
	return im, newest
}

// TestDamageToFirstLog flips bits all over the first segment of a new directory. Each
// is an error of kind Corrupt and leaves the files as they are, or changes nothing that
// is read. Only the newest record may look as if it had never been written whole.
func TestDamageToFirstLog(t *testing.T) {
	im, name := killedNew(t)
	used := len(bytes.TrimRight(im[name], "\x00"))
	damages := crashtest.Damages(name, used, 37)
	corrupt := 0
	for _, d := range damages {
		if !d.Flips {
			continue
		}
		n, err := openDamaged(t, im.Apply(d))
		switch {
		case errors.Is(err, mainstem.ErrCorrupt):
			corrupt++
		case err != nil:
			t.Errorf("%s: %v, want an error of kind corrupt", d, err)
		case n < firstCommits-1:
			t.Errorf("%s: %d of %d records, and no error", d, n, firstCommits)
		}
	}
	t.Logf("%d bytes: %d of %d damages found", used, corrupt, len(damages))
	if corrupt < len(damages)/2 {
		t.Error("hardly any damage was found: the segment does not hold the commits")
	}
}

// openDamaged returns how many records a damaged log shows, or the error of opening it.
func openDamaged(t *testing.T, im crashtest.Image) (int, error) {
	t.Helper()
	fs, err := im.FS()
	if err != nil {
		t.Fatal(err)
	}
	l, err := pebblelog.Open(dir, roomy(fs))
	if err != nil {
		wantUnchanged(t, fs, im)
		return 0, err
	}
	defer l.Close()
	if err := crashtest.Check(t.Context(), l); err != nil {
		return 0, err
	}
	n := 0
	for _, err := range l.Feed(t.Context(), mainstem.Filter{}) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// wantUnchanged fails the test unless all files of im are still in fs as they were.
func wantUnchanged(t *testing.T, fs vfs.FS, im crashtest.Image) {
	t.Helper()
	after, err := crashtest.ReadImage(fs, dir)
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range im {
		if !bytes.Equal(after[path], content) {
			t.Errorf("opening a damaged log changed or deleted %s", path)
		}
	}
}
