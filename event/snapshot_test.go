package event_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// checkState compares a state; snap 0 means that none was used.
func checkState(t *testing.T, s *event.Store, upTo, snap, version mainstem.Version, gap bool, want ...mainstem.Version) {
	t.Helper()
	st, err := s.LoadState(t.Context(), "order-1", &event.StateOptions{UpTo: upTo})
	if err != nil {
		t.Fatal(err)
	}
	var used mainstem.Version
	if st.Snapshot != nil {
		used = st.Snapshot.Version
		if got := string(st.Snapshot.Data); got != strconv.FormatUint(uint64(used), 10) {
			t.Fatalf("the snapshot of version %d holds %q", used, got)
		}
	}
	if used != snap || st.Version != version || st.Gap != gap || !slices.Equal(versions(st.Events), append([]mainstem.Version{}, want...)) {
		t.Fatalf("snapshot %d, events %v, version %d, gap %v: want snapshot %d, events %v, version %d, gap %v",
			used, versions(st.Events), st.Version, st.Gap, snap, want, version, gap)
	}
}

// snapshotAt is the snapshot of order-1 at v.
func snapshotAt(v mainstem.Version) event.Snapshot {
	return event.Snapshot{Stream: "order-1", Version: v, Type: "count", Data: strconv.AppendUint(nil, uint64(v), 10)}
}

func TestLoadState(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		save := func(v mainstem.Version) {
			t.Helper()
			do(t, s, func(b *mainstem.Batch) { s.SaveSnapshotTo(b, snapshotAt(v)) })
		}
		checkState(t, s, 0, 0, 0, false)
		write(t, s, "order-1", event.NoStream, some("A", 5))
		checkState(t, s, 0, 0, 5, false, 1, 2, 3, 4, 5)
		save(3)
		checkState(t, s, 0, 3, 5, false, 4, 5)
		checkState(t, s, 4, 3, 4, false, 4)
		checkState(t, s, 3, 3, 3, false)
		checkState(t, s, 2, 0, 2, false, 1, 2) // the snapshot is from later
		save(5)
		checkState(t, s, 0, 5, 5, false)
		checkState(t, s, 4, 0, 4, false, 1, 2, 3, 4) // only one snapshot is kept

		// The snapshot stands for what was truncated before it, but not for what was after it.
		do(t, s, func(b *mainstem.Batch) { s.TruncateTo(b, "order-1", 6) })
		checkState(t, s, 0, 5, 5, false)
		write(t, s, "order-1", event.AnyVersion, some("A", 3))
		checkState(t, s, 0, 5, 8, false, 6, 7, 8)
		checkState(t, s, 5, 5, 5, false)
		checkState(t, s, 4, 0, 0, true) // of which nothing is held
		do(t, s, func(b *mainstem.Batch) { s.TruncateTo(b, "order-1", 8) })
		checkState(t, s, 0, 0, 8, true, 8)

		// A snapshot of a version that the stream never had is none.
		save(99)
		checkState(t, s, 0, 0, 8, true, 8)
	})
}

func TestLoadStateAfterTheEndOfAStream(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		// The log's writes are made directly, to save a snapshot later than the store lets one.
		late := func(v mainstem.Version) {
			t.Helper()
			b := mainstem.NewBatch()
			s.SaveSnapshotTo(b, snapshotAt(v))
			forced := mainstem.NewBatch()
			for _, e := range b.Ensures() {
				forced.Ensure(e.Space, e.Policy)
			}
			for _, w := range b.Writes() {
				forced.Add(w)
			}
			if _, err := log.Commit(t.Context(), forced); err != nil {
				t.Fatal(err)
			}
		}
		write(t, s, "order-1", event.NoStream, some("A", 5))
		do(t, s, func(b *mainstem.Batch) { s.DeleteTo(b, "order-1", event.AnyVersion) })
		err := s.SaveSnapshot(t.Context(), snapshotAt(5))
		wantKind(t, err, mainstem.ErrNotFound)
		checkState(t, s, 0, 0, 6, false)
		late(5)
		checkState(t, s, 0, 0, 6, false)
		write(t, s, "order-1", event.NoStream, some("B", 2))
		checkState(t, s, 0, 0, 8, false, 7, 8)
		do(t, s, func(b *mainstem.Batch) { s.SaveSnapshotTo(b, snapshotAt(7)) })
		checkState(t, s, 0, 7, 8, false, 8)

		do(t, s, func(b *mainstem.Batch) { s.ForgetTo(b, "order-1") })
		checkState(t, s, 0, 0, 0, false)
		write(t, s, "order-1", event.NoStream, some("C", 1))
		late(8)
		checkState(t, s, 0, 0, 10, true, 10)
	})
}

func TestSnapshotWithItsAppend(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		b := mainstem.NewBatch()
		s.AppendTo(b, "order-1", event.NoStream, some("A", 3))
		s.SaveSnapshotTo(b, snapshotAt(3))
		if _, err := log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		checkState(t, s, 0, 3, 3, false)
		b.Reset()
		s.AppendTo(b, "order-1", event.NoStream, some("A", 3)) // conflicts
		s.SaveSnapshotTo(b, snapshotAt(6))
		_, err := log.Commit(t.Context(), b)
		wantKind(t, err, mainstem.ErrConflict)
		checkState(t, s, 0, 3, 3, false)

		snap, err := s.Snapshot(t.Context(), "order-1", 0)
		if err != nil || snap.Version != 3 || snap.Type != "count" || string(snap.Data) != "3" || snap.Time.IsZero() {
			t.Fatalf("snapshot %+v, %v", snap, err)
		}
		do(t, s, func(b *mainstem.Batch) { s.DeleteSnapshotsTo(b, "order-1") })
		_, err = s.Snapshot(t.Context(), "order-1", 0)
		wantKind(t, err, mainstem.ErrNotFound)
		checkState(t, s, 0, 0, 3, false, 1, 2, 3)
		for name, snap := range map[string]event.Snapshot{
			"no stream": {Version: 1}, "no version": {Stream: "order-1"}, "type": {Stream: "order-1", Version: 1, Type: "\n"},
		} {
			if err := s.SaveSnapshot(t.Context(), snap); err == nil {
				t.Errorf("%s: accepted", name)
			}
		}
	})
}

func TestKeepSnapshots(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, _ *event.Store) {
		s := open(t, log, &event.Options{KeepSnapshots: 2})
		write(t, s, "order-1", event.NoStream, some("A", 6))
		for _, v := range []mainstem.Version{1, 3, 5} {
			do(t, s, func(b *mainstem.Batch) { s.SaveSnapshotTo(b, snapshotAt(v)) })
		}
		checkState(t, s, 0, 5, 6, false, 6)
		checkState(t, s, 4, 3, 4, false, 4)
		checkState(t, s, 2, 0, 2, false, 1, 2)
	})
}

// A loader sees a consistent state whatever happens to snapshots and history
// meanwhile.
func TestLoadStateWhileTheStreamIsCompacted(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 1))
		done := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			defer close(done)
			for v := mainstem.Version(1); v < 200; v++ {
				b := mainstem.NewBatch()
				s.AppendTo(b, "order-1", event.AtVersion(v), some("A", 1))
				if v%3 == 0 {
					s.SaveSnapshotTo(b, snapshotAt(v))
				}
				if v%6 == 0 {
					s.TruncateTo(b, "order-1", v)
				}
				if v%9 == 0 {
					s.SaveSnapshotTo(b, snapshotAt(v))
					s.TruncateTo(b, "order-1", v+1)
				}
				if _, err := log.Commit(t.Context(), b); err != nil {
					t.Error(err)
					return
				}
			}
		})
		var newest mainstem.Version
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			st, err := s.LoadState(t.Context(), "order-1", nil)
			if err != nil {
				t.Fatal(err)
			}
			at := mainstem.Version(0)
			if st.Snapshot != nil {
				at = st.Snapshot.Version
			}
			if st.Gap || at+mainstem.Version(len(st.Events)) != st.Version || st.Version < newest {
				t.Fatalf("snapshot %d and %d events make version %d, gap %v, after version %d", at, len(st.Events), st.Version, st.Gap, newest)
			}
			newest = st.Version
		}
		wg.Wait()
		wantEqual(t, "version at the end", newest, 200)
	})
}

// hookLog calls hook once, right after the first read of a space.
type hookLog struct {
	mainstem.Log
	space string
	hook  func()
}

func (l *hookLog) Read(ctx context.Context, space string, key []byte, v mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		for rec, err := range l.Log.Read(ctx, space, key, v) {
			if !yield(rec, err) {
				break
			}
		}
		if hook := l.hook; hook != nil && space == l.space {
			l.hook = nil
			hook()
		}
	}
}

// What happens to a stream between the reads that make up a state.
func TestLoadStateInBetween(t *testing.T) {
	first := func(s *event.Store, b *mainstem.Batch) { s.SaveSnapshotTo(b, snapshotAt(2)) }
	cases := []struct {
		name    string
		before  func(s *event.Store, b *mainstem.Batch)
		between func(s *event.Store, b *mainstem.Batch)
		snap    mainstem.Version // of the result
		version mainstem.Version
		events  int
	}{
		{"a first snapshot, and what it covers goes", nil, func(s *event.Store, b *mainstem.Batch) {
			s.SaveSnapshotTo(b, snapshotAt(4))
			s.TruncateTo(b, "order-1", 5)
		}, 4, 5, 1},
		{"a newer snapshot, and what it covers goes", first, func(s *event.Store, b *mainstem.Batch) {
			s.SaveSnapshotTo(b, snapshotAt(4))
			s.TruncateTo(b, "order-1", 5)
		}, 4, 5, 1},
		{"a newer snapshot, and everything goes", first, func(s *event.Store, b *mainstem.Batch) {
			s.SaveSnapshotTo(b, snapshotAt(5))
			s.TruncateTo(b, "order-1", 6)
		}, 5, 5, 0},
		{"the snapshot goes", first, func(s *event.Store, b *mainstem.Batch) { s.DeleteSnapshotsTo(b, "order-1") }, 2, 5, 3},
		{"the stream is deleted", first, func(s *event.Store, b *mainstem.Batch) { s.DeleteTo(b, "order-1", 5) }, 0, 6, 0},
		{"the stream is forgotten", first, func(s *event.Store, b *mainstem.Batch) { s.ForgetTo(b, "order-1") }, 0, 0, 0},
		{"more events", first, func(s *event.Store, b *mainstem.Batch) { s.AppendTo(b, "order-1", 5, some("A", 2)) }, 2, 7, 5},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
				write(t, s, "order-1", event.NoStream, some("A", 5))
				if c.before != nil {
					do(t, s, func(b *mainstem.Batch) { c.before(s, b) })
				}
				hooked := &hookLog{Log: log, space: "event.snapshot/orders"}
				hooked.hook = func() { do(t, s, func(b *mainstem.Batch) { c.between(s, b) }) }
				st, err := open(t, hooked, nil).LoadState(t.Context(), "order-1", nil)
				if err != nil {
					t.Fatal(err)
				}
				var snap mainstem.Version
				if st.Snapshot != nil {
					snap = st.Snapshot.Version
				}
				if hooked.hook != nil || snap != c.snap || st.Version != c.version || len(st.Events) != c.events || st.Gap {
					t.Fatalf("snapshot %d, %d events, version %d, gap %v: want snapshot %d, %d events, version %d", snap, len(st.Events), st.Version, st.Gap, c.snap, c.events, c.version)
				}
			})
		})
	}
}

// A snapshot is of events: saving one of a stream without any says so, to those who
// commit a batch and to those who save at once.
func TestSnapshotWithoutEvents(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		save := func(b *mainstem.Batch) {
			s.SaveSnapshotTo(b, event.Snapshot{Stream: "cart-1", Version: 3, Data: []byte("x")})
		}
		b := mainstem.NewBatch()
		save(b)
		_, err := log.Commit(t.Context(), b)
		var conflict *event.ConflictError
		if !errors.As(err, &conflict) || conflict.Stream != "cart-1" || conflict.Expected != event.StreamExists {
			t.Fatalf("commit: %v", err)
		}
		nowErr := s.SaveSnapshot(t.Context(), event.Snapshot{Stream: "cart-1", Version: 3, Data: []byte("x")})
		wantKind(t, nowErr, mainstem.ErrNotFound)
		for _, err := range []error{err, nowErr} {
			if !strings.Contains(err.Error(), "a snapshot is of events: append some before it, or in the same batch") {
				t.Errorf("%v does not say what to do", err)
			}
		}
		_, err = s.Do(t.Context(), func(b *mainstem.Batch) {
			s.AppendTo(b, "cart-1", event.NoStream, some("A", 3))
			save(b)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
