package pebblelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/crashtest"
)

const restoreDir = "/data/copy"

func restoreOptions(fs vfs.FS) *Options {
	return &Options{FS: fs, Now: new(crashtest.Clock).Now, MemTableBytes: 64 << 10, CacheBytes: 1 << 20, MinFree: -1, MustExist: true}
}

// backedUp returns the backup of a log with sorted files and a journal, and
// what that log shows.
func backedUp(t *testing.T) ([]byte, crashtest.Dump) {
	t.Helper()
	ctx := context.Background()
	c := new(crashtest.Clock)
	l, err := OpenMemory(&Options{Now: c.Now, MemTableBytes: 64 << 10, MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := crashtest.Generate(ctx, crashtest.Shape{Seed: 5, Steps: 70, Durability: mainstem.Fsync, Small: true}, l, c); err != nil {
		t.Fatal(err)
	}
	c.Set(0)
	want, err := crashtest.Take(ctx, l)
	if err != nil {
		t.Fatal(err)
	}
	var backup bytes.Buffer
	if err := l.Backup(ctx, &backup); err != nil {
		t.Fatal(err)
	}
	return backup.Bytes(), want
}

// whole opens what a restore left. It returns true if that is the whole log, false
// if it is none or is refused as damaged, and an error for anything else.
func whole(fs vfs.FS, want crashtest.Dump) (bool, error) {
	l, err := Open(restoreDir, restoreOptions(fs))
	if refused(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer l.Close()
	ctx := context.Background()
	got, err := crashtest.Take(ctx, l)
	if refused(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !got.Equal(want) {
		return false, fmt.Errorf("half a log:\n%s", want.Diff(got, 5))
	}
	return true, crashtest.Check(ctx, l)
}

func refused(err error) bool {
	kind := mainstem.KindOf(err)
	return err != nil && (kind == mainstem.KindNotFound || kind == mainstem.KindCorrupt)
}

// TestRestorePowerCut cuts the power in front of every file operation of a restore:
// there is no log then, or the whole one; and once the restore has ended, the whole one.
func TestRestorePowerCut(t *testing.T) {
	backup, want := backedUp(t)
	fs := vfs.NewCrashableMem()
	ended := false
	cut := func(n int, what string) {
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		for _, percent := range []int{0, 100, 1 + rng.IntN(99)} {
			there, err := whole(fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}), want)
			if err != nil || ended && !there {
				t.Fatalf("power cut before operation %d (%s), %d%% of unsynced data kept: whole %t, %v", n, what, percent, there, err)
			}
		}
	}
	cuts := &crashtest.CutFS{FS: fs, Before: cut}
	if err := restore(context.Background(), cuts, bytes.NewReader(backup), restoreDir); err != nil {
		t.Fatal(err)
	}
	ended = true
	cuts.Do(func(n int) { cut(n+1, "end") })
}

// TestRestoreFault fails every file operation of a restore: there is no log then, and
// the restore can be tried again.
func TestRestoreFault(t *testing.T) {
	backup, want := backedUp(t)
	for i := 1; ; i++ {
		fs := vfs.NewMem()
		f := &crashtest.Fault{At: i, Err: []error{syscall.EIO, syscall.ENOSPC}[i%2]}
		err := restore(context.Background(), f.Wrap(fs), bytes.NewReader(backup), restoreDir)
		if err == nil && f.First() == "" {
			break
		}
		if err != nil && mainstem.KindOf(err) != mainstem.KindUnavailable {
			t.Fatalf("%v: kind %s: %v", f, mainstem.KindOf(err), err)
		}
		there, werr := whole(fs, want)
		if werr != nil || there != (err == nil) {
			t.Fatalf("%v: restore says %v; whole %t, %v", f, err, there, werr)
		}
		if there {
			continue
		}
		if err := restore(context.Background(), fs, bytes.NewReader(backup), restoreDir); err != nil {
			t.Fatalf("%v: trying again: %v", f, err)
		}
		if there, err := whole(fs, want); !there || err != nil {
			t.Fatalf("%v: trying again: whole %t, %v", f, there, err)
		}
	}
}

// TestRestoreDamagedStream restores backups that were cut short or changed.
func TestRestoreDamagedStream(t *testing.T) {
	backup, want := backedUp(t)
	try := func(what string, stream []byte) (there bool) {
		fs := vfs.NewMem()
		err := restore(context.Background(), fs, bytes.NewReader(stream), restoreDir)
		if err != nil && !errors.Is(err, mainstem.ErrCorrupt) {
			t.Fatalf("%s: error %v, want one of kind corrupt", what, err)
		}
		there, werr := whole(fs, want)
		if werr != nil || err != nil && there {
			t.Fatalf("%s: restore says %v; whole %t, %v", what, err, there, werr)
		}
		return there
	}
	for n := 0; n < len(backup); n += len(backup)/150 + 1 {
		if there := try(fmt.Sprintf("cut to %d of %d bytes", n, len(backup)), backup[:n]); there && n < len(backup)-4096 {
			t.Fatalf("%d of %d bytes are a whole backup", n, len(backup))
		}
	}
	restored := 0
	for i := 0; i < len(backup); i += len(backup)/600 + 1 {
		stream := bytes.Clone(backup)
		stream[i] ^= 1 << (i % 8)
		if try(fmt.Sprintf("bit %d of byte %d of %d flipped", i%8, i, len(backup)), stream) {
			restored++
		}
	}
	// What may change: the padding of the stream, modes and times.
	if restored > 60 {
		t.Errorf("%d of 600 flipped bits were not found", restored)
	}
}
