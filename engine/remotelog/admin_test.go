package remotelog_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/remotelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/wire/rpc"
)

func TestInfo(t *testing.T) {
	s := serve(t, model.New(nil), &rpc.Options{Version: "v1.2.3", Engine: "model", Limits: mainstem.Limits{MaxValue: 7}})
	got, err := open(t, s.URL, nil).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := remotelog.Info{
		Version: "v1.2.3", Engine: "model", Snapshots: true, Check: true,
		Limits:    mainstem.Limits{MaxValue: 7}.WithDefaults(),
		Transport: remotelog.Sessions,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// bare is a log without anything optional.
type bare struct{ mainstem.Log }

func TestWhatTheEngineDoesNotOfferIsUnsupported(t *testing.T) {
	log := open(t, serve(t, bare{model.New(nil)}, nil).URL, nil)
	_, err := log.Snapshot(t.Context())
	wantError(t, err, mainstem.KindUnsupported, mainstem.NoOutcome)
	wantError(t, log.Backup(t.Context(), io.Discard), mainstem.KindUnsupported, mainstem.NoOutcome)
	_, err = log.Check(t.Context(), func(mainstem.Problem) {})
	wantError(t, err, mainstem.KindUnsupported, mainstem.NoOutcome)
}

// keeper is a log whose backup is given, and whose check finds given problems.
type keeper struct {
	mainstem.Log
	backup   []byte
	problems []mainstem.Problem
	err      error
}

func (k *keeper) Backup(_ context.Context, w io.Writer) error {
	for b := k.backup; len(b) > 0; {
		n, err := w.Write(b[:min(1000, len(b))])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return k.err
}

func (k *keeper) Check(_ context.Context, report func(mainstem.Problem)) (mainstem.CheckStats, error) {
	for _, p := range k.problems {
		report(p)
	}
	return mainstem.CheckStats{Spaces: 1, Keys: 2, Records: 3, Bytes: 4}, k.err
}

func TestBackupTravels(t *testing.T) {
	k := &keeper{Log: model.New(nil), backup: bytes.Repeat([]byte("0123456789abcdef"), 100_000)}
	log := open(t, serve(t, k, nil).URL, nil)
	var got bytes.Buffer
	if err := log.Backup(t.Context(), &got); err != nil || !bytes.Equal(got.Bytes(), k.backup) {
		t.Errorf("%d bytes arrived, want %d; %v", got.Len(), len(k.backup), err)
	}
	full := errors.New("disk full")
	if err := log.Backup(t.Context(), failingWriter{full}); !errors.Is(err, full) {
		t.Errorf("writing fails with %v", err)
	}
	k.err = &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "backup"}
	wantError(t, log.Backup(t.Context(), io.Discard), mainstem.KindCorrupt, mainstem.NoOutcome)
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestCheckTravels(t *testing.T) {
	k := &keeper{Log: model.New(nil), problems: []mainstem.Problem{{Where: "here", What: "this"}, {Where: "\xff", What: "that"}}}
	log := open(t, serve(t, k, nil).URL, nil)
	var got []mainstem.Problem
	stats, err := log.Check(t.Context(), func(p mainstem.Problem) { got = append(got, p) })
	if err != nil || stats != (mainstem.CheckStats{Spaces: 1, Keys: 2, Records: 3, Bytes: 4}) {
		t.Errorf("%+v, %v", stats, err)
	}
	want := []mainstem.Problem{{Where: "here", What: "this"}, {Where: "\uFFFD", What: "that"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	k.err = &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "check"}
	_, err = log.Check(t.Context(), func(mainstem.Problem) {})
	wantError(t, err, mainstem.KindUnavailable, mainstem.NoOutcome)
}

// counting is a log that knows its open snapshots and their uses.
type counting struct {
	*model.Log
	open, heads atomic.Int64
}

func (c *counting) Snapshot(ctx context.Context) (mainstem.Snapshot, error) {
	s, err := c.Log.Snapshot(ctx)
	c.open.Add(1)
	return &countedSnapshot{s, c}, err
}

type countedSnapshot struct {
	mainstem.Snapshot
	c *counting
}

func (s *countedSnapshot) Head(ctx context.Context) (mainstem.Position, error) {
	s.c.heads.Add(1)
	return s.Snapshot.Head(ctx)
}

func (s *countedSnapshot) Close() error {
	s.c.open.Add(-1)
	return s.Snapshot.Close()
}

func TestSnapshotIsHeldWhileItsClientLives(t *testing.T) {
	behind := &counting{Log: model.New(nil)}
	if _, err := behind.Commit(t.Context(), put("", "k", "old")); err != nil {
		t.Fatal(err)
	}
	log := open(t, serve(t, behind, &rpc.Options{SnapshotLease: time.Hour}).URL, nil)
	log.SetRenewal(10 * time.Millisecond)
	snapshot, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Commit(t.Context(), put("", "k", "new")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the client has renewed the lease, and more than once", func() bool { return behind.heads.Load() >= 4 })
	if r, err := snapshot.Get(t.Context(), "s", []byte("k")); err != nil || string(r.Value) != "old" {
		t.Errorf("the snapshot gives %q, %v", r.Value, err)
	}
	for _, err := range snapshot.Feed(t.Context(), mainstem.Filter{Follow: true}) {
		wantError(t, err, mainstem.KindUnsupported, mainstem.NoOutcome)
	}
	for range 2 {
		if err := snapshot.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := behind.open.Load(); n != 0 {
		t.Errorf("%d snapshots are open after the last was closed", n)
	}
	_, err = snapshot.Get(t.Context(), "s", []byte("k"))
	wantError(t, err, mainstem.KindClosed, mainstem.NoOutcome)
	if got := remotelog.RenewEvery(3 * time.Second); got != time.Second {
		t.Errorf("a lease of 3s is renewed every %v, want 1s", got)
	}
}

// A client that goes away without closing loses its snapshot.
func TestSnapshotOfAClientThatIsGoneIsClosed(t *testing.T) {
	behind := &counting{Log: model.New(nil)}
	gone := open(t, serve(t, behind, &rpc.Options{SnapshotLease: 100 * time.Millisecond}).URL, nil)
	left, err := gone.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "the server closes the snapshot that nobody uses", func() bool { return behind.open.Load() == 0 })
	if err := left.Close(); err != nil {
		t.Errorf("close a snapshot of a closed log: %v", err)
	}
}
