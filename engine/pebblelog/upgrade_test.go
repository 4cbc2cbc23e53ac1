package pebblelog_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
)

// The directories below testdata/old were written by versions of before the journal, with
// 200 commits of which each put a record into the space stream, which keeps all, and one
// into the space table, which keeps the newest of a key:
//
//	closed   at fsync, and closed
//	killed   at fsync, copied while it was open
//	relaxed  at durability os, copied while it was open
//	clocked  as killed, with a clock that was set back by an hour after 100 commits (format 2)
const oldCommits = 200

var oldDirectories = []string{"closed", "killed", "relaxed", "clocked"}

// oldLog returns a file system that holds the old directory called name as /log.
func oldLog(t *testing.T, name string) *vfs.MemFS {
	t.Helper()
	f, err := os.Open("testdata/old/" + name + ".tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	im := crashtest.Image{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if im[path.Join("/log", h.Name)], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	fs, err := im.CrashableFS()
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

// wantOld fails the test unless l holds what the old directory held.
func wantOld(t *testing.T, l *pebblelog.Log) {
	t.Helper()
	n := 0
	for r, err := range l.Feed(t.Context(), mainstem.Filter{Spaces: []string{"stream"}}) {
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("stream-%d event %d", n%7, n); string(r.Key)+" "+string(r.Value) != want {
			t.Fatalf("record %d is %q of %q, want %q", n, r.Value, r.Key, want)
		}
		n++
	}
	if n != oldCommits {
		t.Fatalf("%d records, want %d", n, oldCommits)
	}
	for k := range 11 {
		r, err := l.Get(t.Context(), "table", fmt.Appendf(nil, "key-%d", k))
		newest := k + (oldCommits-1-k)/11*11
		if err != nil || string(r.Value) != fmt.Sprintf("value %d", newest) || int(r.Version) != newest/11+1 {
			t.Fatalf("key-%d is %q at version %d, %v, want value %d", k, r.Value, r.Version, err, newest)
		}
	}
	if err := crashtest.Check(t.Context(), l); err != nil {
		t.Fatal(err)
	}
}

// TestUpgrade opens directories of old formats: with the option they are logs of the
// newest one, which the next open needs no option for.
func TestUpgrade(t *testing.T) {
	for _, name := range oldDirectories {
		t.Run(name, func(t *testing.T) {
			fs := oldLog(t, name)
			before, err := crashtest.ReadImage(fs, "/log")
			if err != nil {
				t.Fatal(err)
			}
			_, err = pebblelog.Open("/log", &pebblelog.Options{FS: fs})
			if mainstem.KindOf(err) != mainstem.KindInvalid || !strings.Contains(err.Error(), "Options.Upgrade") {
				t.Fatalf("%v, want Invalid that names Options.Upgrade", err)
			}
			ro := mustOpen(t, &pebblelog.Options{FS: medium{fs, t}, ReadOnly: true})
			wantOld(t, ro)
			closeLog(t, ro)
			for path, content := range before {
				if after, err := crashtest.ReadImage(fs, "/log"); err != nil || string(after[path]) != string(content) {
					t.Fatalf("%s was changed: %v", path, err)
				}
			}
			l := mustOpen(t, &pebblelog.Options{FS: fs, Upgrade: true})
			wantOld(t, l)
			b := mainstem.NewBatch()
			b.Put("stream", []byte("new"), []byte("event"))
			if _, err := l.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			closeLog(t, l)
			l = mustOpen(t, &pebblelog.Options{FS: fs})
			if r, err := l.Get(t.Context(), "stream", []byte("new")); err != nil || r.Position <= 2*oldCommits {
				t.Errorf("the record written after the upgrade: %v, %v", r, err)
			}
			closeLog(t, l)
		})
	}
}

// everyCut is how many file operations of an upgrade there are to one before which the power
// is cut. The four directories begin at different ones.
const everyCut = 16

// TestUpgradePowerCut cuts the power before some file operations of an upgrade, among them
// all that raise the format. What is left is upgraded by the next open, with everything.
func TestUpgradePowerCut(t *testing.T) {
	percents := []int{0, 50, 100} // of what was not synced survive
	if testing.Short() {
		percents = percents[1:2]
	}
	for i, name := range oldDirectories {
		if testing.Short() && i > 0 {
			break // the others differ in bytes, not in which goroutines run
		}
		t.Run(name, func(t *testing.T) {
			fs := oldLog(t, name)
			cuts := 0
			look := func(n int, what string) {
				if !strings.HasPrefix(what, "rename") && !strings.Contains(what, "MAINSTEM") && n%everyCut != i {
					return
				}
				for _, percent := range percents {
					cuts++
					after := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, uint64(n)))})
					l, err := pebblelog.Open("/log", &pebblelog.Options{FS: after, Upgrade: true})
					if err != nil {
						t.Fatalf("power cut before operation %d (%s), %d%% kept: %v", n, what, percent, err)
					}
					wantOld(t, l)
					closeLog(t, l)
				}
			}
			cut := &crashtest.CutFS{FS: fs, Before: look}
			l := mustOpen(t, &pebblelog.Options{FS: cut, Upgrade: true})
			closeLog(t, l)
			t.Logf("%d power cuts", cuts)
		})
	}
}

func mustOpen(t *testing.T, o *pebblelog.Options) *pebblelog.Log {
	t.Helper()
	l, err := pebblelog.Open("/log", o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func closeLog(t *testing.T, l *pebblelog.Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
