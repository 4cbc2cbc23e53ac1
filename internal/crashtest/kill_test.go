package crashtest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
)

// childEnv holds the directory in which a process of this test binary is to write
// until it is killed.
const childEnv = "MAINSTEM_CRASHTEST_CHILD"

// writers is how many goroutines of a child write at once.
const writers = 4

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	// Pebble forgets this one when it fails to open.
	granter := goleak.IgnoreTopFunction("github.com/cockroachdb/pebble/v2.(*ConcurrencyLimitScheduler).periodicGranter")
	if err := goleak.Find(granter); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// child writes ledgers without end and says so, entry by entry, once each is acknowledged.
func child(dir string) error {
	l, err := pebblelog.Open(dir, &pebblelog.Options{MemTableBytes: 128 << 10, MinFree: -1})
	if err != nil {
		return err
	}
	errs := make(chan error)
	for w := range writers {
		go func() { errs <- write(l, w, os.Stdout) }()
	}
	return <-errs
}

func write(l mainstem.Log, writer int, acks io.Writer) error {
	ctx := context.Background()
	n, err := crashtest.LedgerLength(ctx, l, writer)
	for err == nil {
		n++
		d := mainstem.Fsync
		if (writer+n)%3 == 0 {
			d = mainstem.OS
		}
		if _, err = l.Commit(ctx, crashtest.LedgerBatch(writer, n, d)); err == nil {
			_, err = fmt.Fprintf(acks, "%d %d\n", writer, n) // one write: a line is there whole or not
		}
	}
	return err
}

// TestKill kills a writing process with SIGKILL at random moments, again and again
// on one directory.
func TestKill(t *testing.T) {
	rounds, directories := 8, 1
	if *long {
		rounds, directories = 25, 40
	}
	seed := rand.Uint64()
	if s := os.Getenv("MAINSTEM_CRASHTEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("MAINSTEM_CRASHTEST_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range directories {
		dir := t.TempDir()
		acked := make([]int, writers)
		for round := range rounds {
			if err := killOnce(dir, acked, rng.IntN(400)); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			if err := afterKill(dir, acked); err != nil {
				t.Fatalf("round %d, acknowledged %v: %v", round, acked, err)
			}
		}
		t.Logf("entries of the writers after %d kills: %v", rounds, acked)
	}
}

// killOnce starts a child and kills it after some acknowledgements, which it adds
// to acked. With 0 it kills the child while it opens the log.
func killOnce(dir string, acked []int, after int) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if after == 0 {
		_ = cmd.Process.Kill()
	}
	lines := 0
	for s := bufio.NewScanner(out); s.Scan(); {
		var writer, n int
		if _, err := fmt.Sscanf(s.Text(), "%d %d", &writer, &n); err != nil {
			return fmt.Errorf("the child said %q: %w", s.Text(), err)
		}
		if n != acked[writer]+1 {
			return fmt.Errorf("writer %d went on with entry %d after %d", writer, n, acked[writer])
		}
		acked[writer] = n
		if lines++; lines == after {
			_ = cmd.Process.Kill()
		}
	}
	err = cmd.Wait()
	if s := cmd.ProcessState; s.Exited() {
		return fmt.Errorf("the child ended by itself: %v", err)
	}
	return nil
}

// afterKill opens the log and checks that it holds what was acknowledged, whole, and
// at most one entry more of each writer, whole too. Entries in doubt are committed
// again, and there is one copy of each.
func afterKill(dir string, acked []int) error {
	ctx := context.Background()
	l, err := pebblelog.Open(dir, &pebblelog.Options{MemTableBytes: 128 << 10, MinFree: -1})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := crashtest.Check(ctx, l); err != nil {
		return err
	}
	lengths := make([]int, len(acked))
	for w := range acked {
		if lengths[w], err = crashtest.LedgerLength(ctx, l, w); err != nil {
			return err
		}
		if lengths[w] < acked[w] || lengths[w] > acked[w]+1 {
			return fmt.Errorf("writer %d: %d entries acknowledged, %d found", w, acked[w], lengths[w])
		}
	}
	if err := crashtest.VerifyLedger(ctx, l, lengths); err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, len(acked))
	for w := range acked {
		there := lengths[w] > acked[w]
		acked[w]++
		wg.Go(func() {
			r, err := l.Commit(ctx, crashtest.LedgerBatch(w, acked[w], mainstem.OS))
			if err != nil || r.Duplicate != there {
				errs[w] = fmt.Errorf("committing entry %d of writer %d, present %t, again: duplicate %t, %v", acked[w], w, there, r.Duplicate, err)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if err := crashtest.VerifyLedger(ctx, l, acked); err != nil {
		return err
	}
	return l.Close()
}
