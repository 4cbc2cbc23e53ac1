package crashtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
	"github.com/mainstemdev/mainstem/internal/format"
)

// wantKind fails the test unless err is an error of the contract of one of the kinds
// whose text holds all of words.
func wantKind(t *testing.T, err error, kind mainstem.Kind, words ...string) {
	t.Helper()
	var e *mainstem.Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Errorf("error %v, want one of kind %s", err, kind)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

// put commits one record and returns the error.
func put(l mainstem.Log, key string) error {
	b := mainstem.NewBatch()
	b.Ensure("space", mainstem.Policy{})
	b.Put("space", []byte(key), []byte("value"))
	_, err := l.Commit(context.Background(), b)
	return err
}

// closedLog returns the files of a log with one record.
func closedLog(t *testing.T) crashtest.Image {
	t.Helper()
	fs := vfs.NewMem()
	l, err := pebblelog.Open(dir, options(fs, new(crashtest.Clock), mainstem.Fsync))
	if err != nil {
		t.Fatal(err)
	}
	if err := put(l, "a"); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	im, err := crashtest.ReadImage(fs, dir)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func openImage(t *testing.T, im crashtest.Image) (*pebblelog.Log, error) {
	t.Helper()
	fs, err := im.FS()
	if err != nil {
		t.Fatal(err)
	}
	return pebblelog.Open(dir, options(fs, new(crashtest.Clock), mainstem.Fsync))
}

func TestForeignDirectory(t *testing.T) {
	im := crashtest.Image{dir + "/notes.txt": []byte("mine"), dir + "/db/x": nil}
	fs, err := im.FS()
	if err != nil {
		t.Fatal(err)
	}
	_, err = pebblelog.Open(dir, options(fs, new(crashtest.Clock), mainstem.Fsync))
	wantKind(t, err, mainstem.KindInvalid, dir, "notes.txt")
	after, err := crashtest.ReadImage(fs, dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != len(im) || string(after[dir+"/notes.txt"]) != "mine" {
		t.Errorf("somebody else's directory was changed: %v", after.Paths())
	}
}

func TestIdentity(t *testing.T) {
	newer := format.AppendIdentity(nil, format.Identity{Format: format.Version + 1, ID: "x"})
	for _, test := range []struct {
		name    string
		content []byte
		kind    mainstem.Kind
		words   []string
	}{
		{"newer format", newer, mainstem.KindInvalid, []string{fmt.Sprint(format.Version + 1), "newer version"}},
		{"empty", []byte{}, mainstem.KindCorrupt, []string{format.IdentityName}},
		{"huge", bytes.Repeat([]byte("mainstem log\n"), 1<<20), mainstem.KindCorrupt, []string{format.IdentityName}},
		{"of another program", []byte("#!/bin/sh\n"), mainstem.KindCorrupt, []string{format.IdentityName}},
	} {
		t.Run(test.name, func(t *testing.T) {
			im := closedLog(t)
			im[dir+"/"+format.IdentityName] = test.content
			_, err := openImage(t, im)
			wantKind(t, err, test.kind, append(test.words, dir)...)
		})
	}
	t.Run("missing", func(t *testing.T) {
		im := closedLog(t)
		delete(im, dir+"/"+format.IdentityName)
		_, err := openImage(t, im)
		wantKind(t, err, mainstem.KindCorrupt, format.IdentityName)
	})
	t.Run("huge in an empty directory", func(t *testing.T) {
		_, err := openImage(t, crashtest.Image{dir + "/" + format.IdentityName: make([]byte, 1<<20)})
		wantKind(t, err, mainstem.KindCorrupt, format.IdentityName)
	})
}

func TestPathIsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := pebblelog.Open(path, nil)
	wantKind(t, err, mainstem.KindInvalid, path)
	_, err = pebblelog.Open(filepath.Join(path, "below"), nil)
	wantKind(t, err, mainstem.KindInvalid, path)
	if p, err := os.ReadFile(path); err != nil || string(p) != "text" {
		t.Errorf("the file was changed: %q, %v", p, err)
	}
}

// TestReadOnlyDirectory opens logs where nothing can be written.
func TestReadOnlyDirectory(t *testing.T) {
	writes := func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite }
	for _, cause := range []struct {
		err  error
		kind mainstem.Kind
	}{{syscall.EROFS, mainstem.KindUnavailable}, {syscall.EACCES, mainstem.KindDenied}} {
		fs, err := closedLog(t).FS()
		if err != nil {
			t.Fatal(err)
		}
		f := &crashtest.Fault{At: 1, Permanent: true, Err: cause.err, Only: writes}
		err = crashtest.Within("opening a log that cannot be written", func() error {
			_, err := pebblelog.Open(dir, options(f.Wrap(fs), new(crashtest.Clock), mainstem.Fsync))
			return err
		})
		wantKind(t, err, cause.kind, dir)
		if l, err := pebblelog.Open(dir, options(fs, new(crashtest.Clock), mainstem.Fsync)); err != nil {
			t.Errorf("when it can be written again: %v", err)
		} else if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNearlyFullDisk stops commits before the disk is full, and lets them go on.
func TestNearlyFullDisk(t *testing.T) {
	fs := vfs.NewMem()
	o := options(fs, new(crashtest.Clock), mainstem.Fsync)
	o.MinFree = 1 << 20
	l, err := pebblelog.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 10, TotalBytes: 1 << 30})
	err = put(l, "a")
	wantKind(t, err, mainstem.KindUnavailable, "1024", "free")
	var e *mainstem.Error
	if errors.As(err, &e); e.Outcome != mainstem.NotWritten {
		t.Errorf("outcome %v, want not written", e.Outcome)
	}
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 29, TotalBytes: 1 << 30})
	if err := put(l, "a"); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func TestTwoOpens(t *testing.T) {
	path := t.TempDir()
	l, err := pebblelog.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, again := range []string{path, filepath.Join(path, "..", filepath.Base(path))} {
		_, err = pebblelog.Open(again, nil)
		wantKind(t, err, mainstem.KindUnavailable, path, fmt.Sprintf("process %d", os.Getpid()))
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	_, err = pebblelog.Open(link, nil)
	wantKind(t, err, mainstem.KindUnavailable, fmt.Sprintf("process %d", os.Getpid()))
	if err := put(l, "a"); err != nil {
		t.Errorf("the first one suffered: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = pebblelog.Open(link, nil); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTwoProcesses opens a log that a child of this process writes.
func TestTwoProcesses(t *testing.T) {
	path := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // an entry: it has the log open
		t.Fatal(err)
	}
	go func() { // it must not stall
		buf := make([]byte, 1<<12)
		for {
			if _, err := out.Read(buf); err != nil {
				return
			}
		}
	}()
	_, err = pebblelog.Open(path, nil)
	wantKind(t, err, mainstem.KindUnavailable, path, fmt.Sprintf("process %d", cmd.Process.Pid), exe)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	l, err := pebblelog.Open(path, nil)
	if err != nil {
		t.Fatalf("after it was killed: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDuplicateIsDurable commits a batch again and asks for more durability than the
// first time: it must be on stable storage when the receipt of the first is returned.
func TestDuplicateIsDurable(t *testing.T) {
	fs := vfs.NewCrashableMem()
	l, err := pebblelog.Open(dir, options(fs, new(crashtest.Clock), mainstem.Fsync))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := context.Background()
	for _, d := range []mainstem.Durability{mainstem.OS, mainstem.Fsync} {
		if _, err := l.Commit(ctx, crashtest.LedgerBatch(0, 1, d)); err != nil {
			t.Fatal(err)
		}
	}
	after, err := pebblelog.Open(dir, options(fs.CrashClone(vfs.CrashCloneCfg{}), new(crashtest.Clock), mainstem.Fsync))
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	if err := crashtest.VerifyLedger(ctx, after, []int{1}); err != nil {
		t.Errorf("a batch committed again at fsync is gone after a power cut: %v", err)
	}
}

// TestInterval waits for a batch to reach stable storage by itself.
func TestInterval(t *testing.T) {
	fs := vfs.NewCrashableMem()
	l, err := pebblelog.Open(dir, options(fs, new(crashtest.Clock), mainstem.Fsync))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := context.Background()
	if _, err := l.Commit(ctx, crashtest.LedgerBatch(0, 1, mainstem.Interval(time.Millisecond))); err != nil {
		t.Fatal(err)
	}
	survives := func() error {
		after, err := pebblelog.Open(dir, options(fs.CrashClone(vfs.CrashCloneCfg{}), new(crashtest.Clock), mainstem.Fsync))
		if err != nil {
			return err
		}
		defer after.Close()
		return crashtest.VerifyLedger(ctx, after, []int{1})
	}
	if err := crashtest.Eventually(survives); err != nil {
		t.Error(err)
	}
}
