package embedded_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/natslog"
	"github.com/mainstemdev/mainstem/engine/natslog/embedded"
	"github.com/mainstemdev/mainstem/enginetest"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Random programs in a directory that is closed and opened again within them; the
// engine has the whole suite behind it.
func TestPrograms(t *testing.T) {
	clock := enginetest.NewClock()
	f := enginetest.All()
	f.Patience = testkit.Patience
	f.Snapshot = false
	f.SteadyClock = true // clocks of processes may differ by a minute
	f.Clock = clock
	f.Programs = 6
	open, reopen := enginetest.InDirectory(func(t *testing.T, dir string) mainstem.Log {
		log, err := embedded.Open(dir, &embedded.Options{Durability: mainstem.OS, Log: natslog.Options{Now: clock.Now, Monotonic: clock.Monotonic, SweepEvery: -1}})
		if err != nil {
			t.Fatal(err)
		}
		return log
	})
	f.Reopen = reopen
	enginetest.RunPrograms(t, f, open)
}

func put(t *testing.T, log mainstem.Log, value []byte) {
	t.Helper()
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{})
	b.Put("s", []byte("k"), value)
	if _, err := log.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	log, err := embedded.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := embedded.Open(dir, nil)
	if err == nil {
		_ = second.Close()
	}
	by := fmt.Sprintf("the log is in use by process %d, ", os.Getpid())
	if !errors.Is(err, mainstem.ErrUnavailable) || !strings.Contains(err.Error(), by) {
		t.Fatalf("a second open of the directory: %v, want Unavailable, %s", err, by)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if log, err = embedded.Open(dir, nil); err != nil {
		t.Fatalf("open after close: %v", err)
	}
	if err := errors.Join(log.Close(), log.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDirectoryCannotBeWritten says why, and not that another process has it.
func TestDirectoryCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Open(file, nil); mainstem.KindOf(err) != mainstem.KindInvalid {
		t.Errorf("a file: %v, want Invalid", err)
	}
	path := func(err error) error { return &fs.PathError{Op: "open", Path: "/log/mainstem.lock", Err: err} }
	for _, test := range []struct {
		err  error
		kind mainstem.Kind
	}{
		{path(syscall.EACCES), mainstem.KindDenied},
		{path(syscall.EPERM), mainstem.KindDenied},
		{path(syscall.EROFS), mainstem.KindUnavailable},
		{path(syscall.ENOSPC), mainstem.KindUnavailable},
	} {
		err := embedded.DirectoryError("/log", test.err)
		if mainstem.KindOf(err) != test.kind || strings.Contains(err.Error(), "process") {
			t.Errorf("%v: %v, want kind %v", test.err, err, test.kind)
		}
	}
}

// The largest value of the contract fits, and others may read it over the network.
func TestListen(t *testing.T) {
	log, err := embedded.OpenURL("nats:embedded?store="+t.TempDir()+"&listen=127.0.0.1:0&durability=os&stream=ORDERS", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	large := make([]byte, mainstem.DefaultMaxValue)
	large[0], large[len(large)-1] = 1, 2
	put(t, log, large)
	other, err := natslog.Open(log.URL()+"?stream=ORDERS", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	r, err := other.Get(t.Context(), "s", []byte("k"))
	if err != nil || string(r.Value) != string(large) {
		t.Fatalf("the value does not come back over the network: %d bytes, %v", len(r.Value), err)
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	for _, address := range []string{
		"nats:embedded", "nats:embedded?store=", "nats:other?store=x", "nats:embedded?store=x&sync=1",
		"nats:embedded?store=x&durability=soon", "nats:embedded?store=x&listen=0.0.0.0:0", "nats:embedded?store=x&listen=nowhere",
	} {
		if log, err := embedded.OpenURL(address, nil); !errors.Is(err, mainstem.ErrInvalid) {
			if err == nil {
				_ = log.Close()
			}
			t.Errorf("open %s: %v, want Invalid", address, err)
		}
	}
}
