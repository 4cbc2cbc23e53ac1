package pebblelog

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/crashtest"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// TestCompactOnAFailingDisk compacts while no sorted file can be written. That fails, and commits
// go on when the disk works again.
func TestCompactOnAFailingDisk(t *testing.T) {
	steps := map[string]func(l *Log) error{
		"all": func(l *Log) error { return l.Compact(context.Background()) },
		"between two commits": func(l *Log) error {
			ctx, end := l.interrupts.begin(context.Background())
			defer end()
			return mapError("compact", l.eraseJournal(ctx))
		},
	}
	for name, compact := range steps {
		t.Run(name, func(t *testing.T) {
			fault := &crashtest.Fault{At: 1, Permanent: true, Err: syscall.EIO, Only: func(op errorfs.Op) bool {
				return op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst")
			}}
			l, err := Open("/log", &Options{FS: fault.Wrap(vfs.NewMem())})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			commit := func() error {
				var b mainstem.Batch
				b.Ensure("s", mainstem.Policy{})
				b.Put("s", []byte("k"), nil)
				_, err := l.Commit(t.Context(), &b)
				return err
			}
			if err := commit(); err != nil {
				t.Fatal(err)
			}
			failed := make(chan error, 1)
			go func() { failed <- compact(l) }()
			testkit.Eventually(t, "it has ended", func() bool { return len(failed) > 0 })
			if err := <-failed; mainstem.KindOf(err) != mainstem.KindUnavailable {
				t.Errorf("%v, want Unavailable", err)
			}
			fault.Heal()
			testkit.Succeeds(t, "commits go on", commit)
			testkit.Succeeds(t, "it can be compacted", func() error { return compact(l) })
		})
	}
}

// TestCompactOnAFullDisk compacts where there is no room to merge files.
func TestCompactOnAFullDisk(t *testing.T) {
	disk := &fullDisk{FS: vfs.NewMem()}
	l, err := Open("/log", &Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	disk.full.Store(true)
	if err := l.Compact(t.Context()); mainstem.KindOf(err) != mainstem.KindUnavailable {
		t.Errorf("%v, want Unavailable", err)
	}
}
