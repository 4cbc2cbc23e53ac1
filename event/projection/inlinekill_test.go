package projection_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/kv"
)

var inlineLong = flag.Duration("projection.inline", 0, "how long TestInlineKilledProcesses kills processes; 0: a few times")

const (
	inlineVariable = "PROJECTION_INLINE_WORKER" // makes this binary a process of the test: ROLE URL FILE
	roleAppend     = "append"
	roleRebuild    = "rebuild"
	standsStill    = time.Minute // an append that takes longer does
)

// branch is one of the programs of the test. All append with the inline projection in the version
// of the newest release, and some rebuild it.
type branch struct {
	store    *event.Store
	types    *event.Types
	sums     *readmodel.Alias[total]
	releases *kv.Bucket[int] // key "version": that of the handlers that programs are to have
	journal  *os.File        // lines of all processes, each written at once

	version int // of inline
	inline  *projection.InlineStore
}

// mortal is the log of a process that kills itself when it has made a number of commits.
type mortal struct {
	mainstem.Log
	left atomic.Int64 // commits; below 0: it lives on
}

func (l *mortal) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	r, err := l.Log.Commit(ctx, b)
	if l.left.Add(-1) == 0 {
		if p, err := os.FindProcess(os.Getpid()); err == nil {
			_ = p.Kill()
		}
		<-ctx.Done() // nobody learns of the commit
	}
	return r, err
}

func openBranch(log mainstem.Log, file string) (*branch, error) {
	s := &branch{types: event.NewTypes(nil)}
	var errs [5]error
	s.store, errs[0] = event.Open(log, "shop", nil)
	errs[1] = event.Register[paid](s.types, "Paid")
	s.sums, errs[2] = readmodel.OpenAlias(log, "shop/sums", &readmodel.Options[total]{Key: func(t total) string { return t.Customer }})
	s.releases, errs[3] = kv.Open[int](log, "shop/releases", nil)
	s.journal, errs[4] = os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return s, errors.Join(errs[:]...)
}

// note writes a line that stays when the process is killed.
func (s *branch) note(words ...any) error {
	_, err := s.journal.WriteString(fmt.Sprintln(words...))
	return err
}

// open opens the projection in a version; rows of other versions have other cents.
func (s *branch) open(ctx context.Context, version int) error {
	p, err := projection.New("sums", version, event.Filter{Category: "order"}, projection.On(
		func(ctx context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
			return projection.Modify(ctx, tx, s.sums, ev.Customer, func(old total, _ bool) (total, error) {
				return total{ev.Customer, old.Cents + version*ev.Cents, old.Count + 1}, nil
			})
		}))
	if err != nil {
		return err
	}
	o := &projection.InlineOptions{Logger: discard, Rebuild: true, Keep: time.Second}
	s.inline, err = projection.OpenInline(ctx, s.store, s.types, o, p.WithTables(s.sums))
	s.version = version
	return err
}

// outdated reports whether err says that the program has an older version than another one, or than
// the one that builds.
func outdated(err error) bool {
	var version *projection.VersionError
	var refused *event.InlineError
	return errors.As(err, &version) || errors.As(err, &refused)
}

// reopen opens the projection in the version of the newest release.
func (s *branch) reopen(ctx context.Context) error {
	for {
		e, err := s.releases.Get(ctx, "version")
		if err == nil {
			err = s.open(ctx, e.Value)
		}
		if !outdated(err) {
			return err
		}
	}
}

// pay appends an event and records it in the journal. If the program is outdated it is opened in a
// newer version first.
func (s *branch) pay(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, standsStill)
	defer cancel()
	ev, err := s.types.Encode(paid{fmt.Sprint("customer", rand.IntN(20)), 1 + rand.IntN(1000)})
	if err != nil {
		return err
	}
	ev.ID = event.NewID()
	for {
		_, err := s.inline.Append(ctx, fmt.Sprint("order-", rand.IntN(50)), event.AnyVersion, []event.Event{ev})
		switch {
		case err == nil:
			return s.note("appended", ev.ID, os.Getpid())
		case !outdated(err):
			return fmt.Errorf("append with version %d: %w", s.version, err)
		}
		if err := s.reopen(ctx); err != nil {
			return fmt.Errorf("open again: %w", err)
		}
	}
}

// rebuild rebuilds the projection, with the same handlers or with those of a new release. It
// returns false if another process has released a newer version meanwhile.
func (s *branch) rebuild(ctx context.Context) (bool, error) {
	err := s.reopen(ctx)
	if err == nil && rand.IntN(2) == 0 {
		err = s.inline.Rebuild(ctx, "sums")
	} else if err == nil {
		next := s.version + 1
		var e kv.Entry[int]
		if e, err = s.releases.Get(ctx, "version"); err == nil && e.Value < next {
			_, err = s.releases.Update(ctx, "version", next, e.Revision)
		}
		if errors.Is(err, mainstem.ErrConflict) { // another process has released it
			err = nil
		}
		if err == nil {
			err = s.open(ctx, next)
		}
	}
	switch {
	case err == nil:
		return true, s.note("rebuilt", s.version, os.Getpid())
	case outdated(err):
		return false, nil
	}
	return false, fmt.Errorf("rebuild version %d: %w", s.version, err)
}

// inlineWorker is the life of a process: it ends when it is killed, or its parent ends.
func inlineWorker(role, url, file string) int {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { testkit.UntilParentEnds(); cancel() }()
	log, err := remotelog.Open(url, nil)
	life := &mortal{Log: log}
	var s *branch
	if err == nil {
		s, err = openBranch(life, file)
	}
	if err == nil {
		err = s.reopen(ctx)
	}
	for err == nil {
		if role == roleAppend {
			err = s.pay(ctx)
			testkit.Pause(ctx, rand.N(20*time.Millisecond))
			continue
		}
		var rebuilt bool
		if rebuilt, err = s.rebuild(ctx); rebuilt {
			// A rebuild has about twelve commits, and most of its time is in one of them. So the
			// process ends itself after a random number of commits too.
			life.left.Store(1 + rand.Int64N(30))
		}
	}
	if ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		if s != nil {
			_ = s.note("failed", os.Getpid(), role, err)
		}
	}
	return 1
}

// journalOf returns the lines of a journal.
func journalOf(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// worked reports whether a process has appended or rebuilt.
func worked(t *testing.T, file string, pid int) bool {
	end := fmt.Sprint(" ", pid)
	return slices.ContainsFunc(journalOf(t, file), func(line string) bool { return strings.HasSuffix(line, end) })
}

// Processes that append with an inline projection, and processes that rebuild it with the same or
// with new handlers, are killed at any moment. Appends never stop for long, readers see complete
// rows at all times, every acknowledged append remains, and in the end the rows are equal to a
// replay of the events.
func TestInlineKilledProcesses(t *testing.T) {
	log, url := testengines.Serve(t)
	file := filepath.Join(t.TempDir(), "journal")
	s, err := openBranch(log, file)
	if err != nil {
		t.Fatal(err)
	}
	defer s.journal.Close()
	if _, err := s.releases.Put(t.Context(), "version", 1); err != nil {
		t.Fatal(err)
	}
	if err := s.reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	until, cancel := context.WithCancel(t.Context())
	workers := testkit.Processes{Lives: 2, Longest: 400 * time.Millisecond, Begun: func(pid int) bool { return worked(t, file, pid) }}
	if *inlineLong > 0 { // there are many lives: some may end before they begin
		until, cancel = context.WithTimeout(t.Context(), *inlineLong)
		workers.Lives, workers.Longest, workers.Begun = 0, 3*time.Second, nil
	}
	defer cancel()
	var lives, others sync.WaitGroup
	var killed atomic.Int64
	for _, role := range []string{roleAppend, roleAppend, roleRebuild, roleRebuild} {
		w := workers
		w.Env = fmt.Sprintf("%s=%s %s %s", inlineVariable, role, url, file)
		lives.Go(func() { killed.Add(int64(w.Run(t, until))) })
	}
	others.Go(func() { // a program that lives on
		for until.Err() == nil {
			if err := s.pay(t.Context()); err != nil {
				t.Error(err)
				return
			}
			testkit.Pause(until, 10*time.Millisecond)
		}
	})
	others.Go(func() { s.read(t, until) })
	lives.Wait()
	cancel()
	others.Wait()
	if err := s.reopen(t.Context()); err != nil { // finishes what a killed process has begun
		t.Fatal(err)
	}
	if err := s.pay(t.Context()); err != nil {
		t.Fatal(err)
	}
	appended, rebuilt := s.compare(t, journalOf(t, file))
	t.Logf("%d processes were killed, %d events, %d rebuilds, the last of version %d", killed.Load(), appended, rebuilt, s.version)
	if appended == 0 || rebuilt == 0 {
		t.Error("the test has proved nothing")
	}
}

// read reads until ctx ends: at no time is there less than before.
func (s *branch) read(t *testing.T, until context.Context) {
	for seen := 0; until.Err() == nil; testkit.Pause(until, time.Millisecond) {
		rows, err := s.sums.Find(t.Context(), readmodel.All())
		n := 0
		for _, r := range rows {
			n += r.Count
		}
		if err != nil || n < seen {
			t.Errorf("a reader sees %d events, after %d; %v", n, seen, err)
			return
		}
		seen = n
	}
}

// compare compares the rows with a replay, and the events with the journal. It returns their
// numbers.
func (s *branch) compare(t *testing.T, journal []string) (appended, rebuilt int) {
	t.Helper()
	sums, times := make(map[string]total), make(map[string]int)
	for r, err := range s.store.Feed(t.Context(), nil) {
		var v any
		if err == nil {
			v, err = s.types.Decode(r)
		}
		if err != nil {
			t.Fatal(err)
		}
		ev := v.(paid)
		old := sums[ev.Customer]
		sums[ev.Customer] = total{ev.Customer, old.Cents + s.version*ev.Cents, old.Count + 1}
		times[r.ID.String()]++
	}
	same(t, s.sums, sums)
	for _, line := range journal {
		switch words := strings.Fields(line); words[0] {
		case "appended":
			if n := times[words[1]]; n != 1 {
				t.Errorf("event %s, whose append has returned, is there %d times", words[1], n)
			}
			appended++
		case "rebuilt":
			rebuilt++
		default:
			t.Errorf("a process has %s", line)
		}
	}
	return appended, rebuilt
}
