package rpc

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
)

// watched is a log that counts its open snapshots.
type watched struct {
	*model.Log
	open atomic.Int64
}

func (w *watched) Snapshot(ctx context.Context) (mainstem.Snapshot, error) {
	s, err := w.Log.Snapshot(ctx)
	w.open.Add(1)
	return &watchedSnapshot{s, w}, err
}

type watchedSnapshot struct {
	mainstem.Snapshot
	w *watched
}

func (s *watchedSnapshot) Close() error {
	s.w.open.Add(-1)
	return s.Snapshot.Close()
}

func held(t *testing.T, s *snapshots) []byte {
	t.Helper()
	id, err := s.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return []byte(id)
}

func TestSnapshotEndsWithItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{Log: model.New(nil)}
		s := newSnapshots(w, 10, time.Minute)
		id := held(t, s)
		for range 5 { // each use renews it
			time.Sleep(59 * time.Second)
			_, release, err := s.use("get", id)
			if err != nil {
				t.Fatal(err)
			}
			release()
		}
		_, release, err := s.use("scan", id)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // a long use
		synctest.Wait()
		if w.open.Load() != 1 {
			t.Error("a snapshot in use was closed")
		}
		release()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if w.open.Load() != 1 {
			t.Error("a snapshot was closed before its lease ended")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if w.open.Load() != 0 {
			t.Error("a snapshot that nobody uses was not closed")
		}
		if _, _, err := s.use("get", id); !errors.Is(err, mainstem.ErrClosed) || errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("using it gives %v, want closed: not found would be a key's", err)
		}
		if err := s.close(id); err != nil {
			t.Error(err)
		}
	})
}

func TestSnapshotClosedWhileUsed(t *testing.T) {
	w := &watched{Log: model.New(nil)}
	s := newSnapshots(w, 10, time.Minute)
	id := held(t, s)
	_, release, err := s.use("scan", id)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.close(id); err != nil {
		t.Error(err)
	}
	if w.open.Load() != 1 {
		t.Error("closed under its reader")
	}
	if _, _, err := s.use("get", id); !errors.Is(err, mainstem.ErrClosed) {
		t.Errorf("using it after it was closed gives %v", err)
	}
	release()
	if w.open.Load() != 0 {
		t.Error("not closed after its last reader")
	}
}

func TestSnapshotsAreLimited(t *testing.T) {
	w := &watched{Log: model.New(nil)}
	s := newSnapshots(w, 2, time.Minute)
	first := held(t, s)
	held(t, s)
	if _, err := s.open(t.Context()); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("the third gives %v", err)
	}
	if err := s.close(first); err != nil {
		t.Error(err)
	}
	held(t, s)
	if err := s.closeAll(); err != nil || w.open.Load() != 0 {
		t.Errorf("%d are open after all were closed, %v", w.open.Load(), err)
	}
	if _, err := s.open(t.Context()); !errors.Is(err, mainstem.ErrUnavailable) {
		t.Errorf("after the end: %v", err)
	}
	_ = w.Close()
	s = newSnapshots(w, 1, time.Minute)
	for range 3 { // one that cannot be taken does not count
		if _, err := s.open(t.Context()); !errors.Is(err, mainstem.ErrClosed) {
			t.Errorf("of a closed log: %v", err)
		}
	}
}
