package pebblelog_test

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
)

// lockless is a file system on which no lock can be taken.
type lockless struct {
	vfs.FS
	err error
}

func (l lockless) Lock(string) (io.Closer, error) { return nil, l.err }

// TestLockCannotBeTaken tells a directory that cannot be written from one in use.
func TestLockCannotBeTaken(t *testing.T) {
	path := func(err error) error { return &fs.PathError{Op: "open", Path: "/log/LOCK", Err: err} }
	for _, test := range []struct {
		err   error
		kind  mainstem.Kind
		inUse bool
	}{
		{path(syscall.EACCES), mainstem.KindDenied, false},
		{path(syscall.EPERM), mainstem.KindDenied, false},
		{path(syscall.EROFS), mainstem.KindUnavailable, false},
		{path(syscall.ENOSPC), mainstem.KindUnavailable, false},
		{syscall.EAGAIN, mainstem.KindUnavailable, true},
		{errors.New("lock held by current process"), mainstem.KindUnavailable, true},
	} {
		_, err := pebblelog.Open("/log", &pebblelog.Options{FS: lockless{vfs.NewMem(), test.err}})
		if mainstem.KindOf(err) != test.kind || strings.Contains(err.Error(), "in use") != test.inUse {
			t.Errorf("%v: %v, want kind %v, in use %t", test.err, err, test.kind, test.inUse)
		}
	}
}
