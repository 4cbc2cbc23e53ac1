package event_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
)

// refused fails unless stream accepts nothing because of seal.
func refused(t *testing.T, s *event.Store, log mainstem.Log, stream string, seal event.Seal) {
	t.Helper()
	check := func(what string, err error) {
		t.Helper()
		var e *event.SealedError
		if !errors.As(err, &e) || e.Seal != seal || e.Stream != stream || !errors.Is(err, mainstem.ErrConflict) {
			t.Fatalf("%s: %v: want that %s is %s", what, err, stream, seal)
		}
	}
	for _, expected := range []event.Expected{event.AnyVersion, event.NoStream, event.StreamExists, 1} {
		_, err := s.Append(t.Context(), stream, expected, some("A", 1))
		check("write", err)
	}
	_, err := s.Append(t.Context(), stream, event.NoStream, identified(some("A", 1)))
	check("write with an ID", err)
	b := mainstem.NewBatch()
	s.AppendTo(b, "free-1", event.AnyVersion, some("A", 1))
	s.AppendTo(b, stream, event.AnyVersion, some("A", 1))
	_, err = log.Commit(t.Context(), b)
	check("append", err)
	err = s.Delete(t.Context(), stream, event.AnyVersion)
	check("delete", err)
	err = s.Truncate(t.Context(), stream, 1)
	check("truncate", err)
	err = s.Archive(t.Context(), stream)
	check("archive", err)
	if n := len(load(t, s, "free-1", nil)); n > 0 {
		t.Fatalf("a refused batch wrote %d events", n)
	}
}

func TestArchive(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 3))
		write(t, s, "order-2", event.NoStream, some("B", 1))
		err := s.Archive(t.Context(), "order-9")
		wantKind(t, err, mainstem.ErrNotFound)
		do(t, s, func(b *mainstem.Batch) { s.ArchiveTo(b, "order-1") })
		refused(t, s, log, "order-1", event.Archived)
		wantEqual(t, "events of an archived stream", len(load(t, s, "order-1", nil)), 3)
		wantEqual(t, "feed without it", len(collect(t, s.Feed(t.Context(), nil))), 1)
		wantEqual(t, "feed with it", len(collect(t, s.Feed(t.Context(), &event.FeedOptions{Filter: event.Filter{Archived: true}}))), 4)

		if err := s.Unarchive(t.Context(), "order-1"); err != nil {
			t.Fatal(err)
		}
		wantKind(t, s.Unarchive(t.Context(), "order-1"), mainstem.ErrNotFound)
		wantEqual(t, "feed", len(collect(t, s.Feed(t.Context(), nil))), 4)
		wantEqual(t, "next version", write(t, s, "order-1", 3, some("A", 1)).First, 4)
		do(t, s, func(b *mainstem.Batch) { s.ArchiveTo(b, "order-1") })
		refused(t, s, log, "order-1", event.Archived)
	})
}

func TestTombstone(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 3))
		do(t, s, func(b *mainstem.Batch) {
			s.SaveSnapshotTo(b, event.Snapshot{Stream: "order-1", Version: 3})
			s.SetSettingsTo(b, "order-1", event.Settings{MaxCount: 1})
		})
		var conflict *event.ConflictError
		err := s.Tombstone(t.Context(), "order-1", 2)
		if !errors.As(err, &conflict) || conflict.Actual != 3 {
			t.Fatalf("tombstone at a wrong version: %v", err)
		}
		do(t, s, func(b *mainstem.Batch) { s.TombstoneTo(b, "order-1", 3) })
		refused(t, s, log, "order-1", event.Tombstoned)
		wantEqual(t, "events", len(load(t, s, "order-1", nil)), 0)
		_, err = s.Snapshot(t.Context(), "order-1", 0)
		wantKind(t, err, mainstem.ErrNotFound)
		settings, err := s.Settings(t.Context(), "order-1")
		wantEqual(t, "settings", settings.MaxCount, 0)
		wantEqual(t, "settings error", err, nil)
		var sealed *event.SealedError
		if err := s.Unarchive(t.Context(), "order-1"); !errors.As(err, &sealed) || sealed.Seal != event.Tombstoned {
			t.Fatalf("unarchive: %v", err)
		}
		do(t, s, func(b *mainstem.Batch) { s.TombstoneTo(b, "order-1", event.AnyVersion) }) // again

		do(t, s, func(b *mainstem.Batch) { s.TombstoneTo(b, "order-2", event.NoStream) }) // never written
		refused(t, s, log, "order-2", event.Tombstoned)

		write(t, s, "order-3", event.NoStream, some("A", 1))
		do(t, s, func(b *mainstem.Batch) { s.ArchiveTo(b, "order-3") })
		do(t, s, func(b *mainstem.Batch) { s.TombstoneTo(b, "order-3", event.AnyVersion) })
		refused(t, s, log, "order-3", event.Tombstoned)
	})
}

func TestDelete(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		do(t, s, func(b *mainstem.Batch) { s.DeleteTo(b, "order-1", event.AnyVersion) }) // nothing there: nothing done
		err := s.Delete(t.Context(), "order-1", event.StreamExists)
		wantKind(t, err, mainstem.ErrNotFound)
		write(t, s, "order-1", event.NoStream, some("A", 5))
		do(t, s, func(b *mainstem.Batch) { s.SaveSnapshotTo(b, event.Snapshot{Stream: "order-1", Version: 5}) })
		do(t, s, func(b *mainstem.Batch) { s.DeleteTo(b, "order-1", 5) })
		_, err = s.Snapshot(t.Context(), "order-1", 0)
		wantKind(t, err, mainstem.ErrNotFound)
		wantEqual(t, "events", len(load(t, s, "order-1", nil)), 0)
		wantEqual(t, "events in the feed", len(collect(t, s.Feed(t.Context(), nil))), 0)
		deletions := collect(t, s.Feed(t.Context(), &event.FeedOptions{Filter: event.Filter{Deletions: true, Types: []string{"A"}}}))
		if len(deletions) != 1 || deletions[0].Type != event.TypeDeleted || deletions[0].Version != 6 || deletions[0].Stream != "order-1" || deletions[0].Data != nil {
			t.Fatalf("deletions %+v", deletions)
		}
		do(t, s, func(b *mainstem.Batch) { s.DeleteTo(b, "order-1", event.AnyVersion) }) // again: nothing to do
		wantEqual(t, "next version", write(t, s, "order-1", event.NoStream, some("B", 1)).First, 7)
	})
}

func TestTruncate(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 5))
		do(t, s, func(b *mainstem.Batch) { s.TruncateTo(b, "order-1", 3) })
		if got := versions(load(t, s, "order-1", nil)); !slices.Equal(got, []mainstem.Version{3, 4, 5}) {
			t.Fatalf("versions %v", got)
		}
		if got := versions(collect(t, s.Feed(t.Context(), nil))); !slices.Equal(got, []mainstem.Version{3, 4, 5}) {
			t.Fatalf("versions in the feed %v", got)
		}
		err := s.Truncate(t.Context(), "order-1", 7)
		wantKind(t, err, mainstem.ErrInvalid)
		err = s.Truncate(t.Context(), "order-1", 0)
		wantKind(t, err, mainstem.ErrInvalid)
		do(t, s, func(b *mainstem.Batch) { s.TruncateTo(b, "order-1", 6) })
		_, err = s.StreamInfo(t.Context(), "order-1")
		wantKind(t, err, mainstem.ErrNotFound)
		wantEqual(t, "next version", write(t, s, "order-1", event.NoStream, some("B", 1)).First, 6)
	})
}

func TestForget(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 3))
		write(t, s, "order-2", event.NoStream, some("A", 1))
		do(t, s, func(b *mainstem.Batch) {
			s.SaveSnapshotTo(b, event.Snapshot{Stream: "order-1", Version: 3, Data: []byte("secret")})
			s.SetSettingsTo(b, "order-1", event.Settings{Custom: map[string]string{"owner": "secret"}})
			s.ArchiveTo(b, "order-1")
		})
		do(t, s, func(b *mainstem.Batch) { s.ForgetTo(b, "order-1") })
		all := collect(t, s.Feed(t.Context(), &event.FeedOptions{Filter: event.Filter{Archived: true, Deletions: true}}))
		if len(all) != 1 || all[0].Stream != "order-2" {
			t.Fatalf("feed %+v", all)
		}
		for info, err := range log.Spaces(t.Context(), "event") {
			if err != nil {
				t.Fatal(err)
			}
			for rec, err := range log.Read(t.Context(), info.Name, []byte("order-1"), mainstem.Versions{}) {
				t.Errorf("space %s still has %+v, %v", info.Name, rec, err)
			}
		}
		_, err := s.StreamInfo(t.Context(), "order-1")
		wantKind(t, err, mainstem.ErrNotFound)
		if a := write(t, s, "order-1", event.NoStream, some("B", 1)); a.First <= 3 {
			t.Fatalf("version %d was used before", a.First)
		}
		do(t, s, func(b *mainstem.Batch) { s.ForgetTo(b, "never") })
	})
}

func TestRewrite(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		write(t, s, "order-1", event.NoStream, some("A", 3))
		before := load(t, s, "order-1", nil)
		do(t, s, func(b *mainstem.Batch) { s.ArchiveTo(b, "order-1") })
		ev := before[1].Event
		ev.Data, ev.Metadata.Custom = []byte("redacted"), map[string]string{"redacted": "yes"}
		do(t, s, func(b *mainstem.Batch) { s.RewriteTo(b, "order-1", 2, ev) })
		after := load(t, s, "order-1", nil)
		wantEqual(t, "data", string(after[1].Data), "redacted")
		wantEqual(t, "metadata", after[1].Metadata.Custom["redacted"], "yes")
		if after[1].ID != before[1].ID || after[1].Position != before[1].Position || !after[1].Time.Equal(before[1].Time) || after[1].Version != 2 {
			t.Fatalf("rewritten %+v: was %+v", after[1], before[1])
		}
		wantEqual(t, "in the feed", string(collect(t, s.Feed(t.Context(), &event.FeedOptions{Filter: event.Filter{Archived: true}}))[1].Data), "redacted")
		err := s.Rewrite(t.Context(), "order-1", 9, ev)
		wantKind(t, err, mainstem.ErrNotFound)
		err = s.Rewrite(t.Context(), "order-1", 2, event.Event{Type: "A"})
		wantKind(t, err, mainstem.ErrInvalid)
	})
}

func TestSettingsAndScavenge(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		for _, stream := range []string{"count-1", "age-1", "free-1", "small-1", "gone-1", "shut-1"} {
			write(t, s, stream, event.NoStream, some("A", 5))
		}
		waitForClock(t, log)
		do(t, s, func(b *mainstem.Batch) {
			s.SetSettingsTo(b, "count-1", event.Settings{MaxCount: 2, Custom: map[string]string{"k": "v"}})
			s.SetSettingsTo(b, "age-1", event.Settings{MaxAge: 1})
			s.SetSettingsTo(b, "free-1", event.Settings{Custom: map[string]string{"k": "v"}})
			s.SetSettingsTo(b, "small-1", event.Settings{MaxCount: 5})
			s.SetSettingsTo(b, "gone-1", event.Settings{MaxCount: 1})
			s.DeleteTo(b, "gone-1", event.AnyVersion)
			s.SetSettingsTo(b, "never-1", event.Settings{MaxCount: 1})
			s.SetSettingsTo(b, "shut-1", event.Settings{MaxCount: 1})
			s.ArchiveTo(b, "shut-1")
		})
		settings, err := s.Settings(t.Context(), "count-1")
		if err != nil || settings.MaxCount != 2 || settings.Custom["k"] != "v" {
			t.Fatalf("settings %+v, %v", settings, err)
		}
		done, err := s.Scavengeable(t.Context())
		if err != nil || done != (event.Scavenged{Streams: 2, Events: 8}) || len(load(t, s, "count-1", nil)) != 5 {
			t.Fatalf("to be scavenged: %+v, %v", done, err)
		}
		done, err = s.Scavenge(t.Context())
		if err != nil || done != (event.Scavenged{Streams: 2, Events: 8}) {
			t.Fatalf("scavenged %+v, %v", done, err)
		}
		for stream, want := range map[string]int{"count-1": 2, "age-1": 0, "free-1": 5, "small-1": 5, "gone-1": 0, "shut-1": 5} {
			if got := len(load(t, s, stream, nil)); got != want {
				t.Errorf("%s has %d events: want %d", stream, got, want)
			}
		}
		if got := load(t, s, "count-1", nil); got[0].Version != 4 {
			t.Errorf("the oldest event left is version %d: want 4", got[0].Version)
		}
		if done, err = s.Scavenge(t.Context()); err != nil || done != (event.Scavenged{}) {
			t.Fatalf("scavenged again %+v, %v", done, err)
		}
		err = s.SetSettings(t.Context(), "x", event.Settings{MaxAge: -1})
		wantKind(t, err, mainstem.ErrInvalid)
	})
}

// sealingLog is a log on which before is called ahead of the first commit.
type sealingLog struct {
	mainstem.Log
	before func()
}

func (l *sealingLog) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if before := l.before; before != nil {
		l.before = nil
		before()
	}
	return l.Log.Commit(ctx, b)
}

// A stream that is archived while Scavenge reads it is left alone, and the others are not.
func TestScavengeBesideArchive(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		for _, stream := range []string{"a-1", "b-1"} {
			write(t, s, stream, event.NoStream, some("A", 5))
			do(t, s, func(b *mainstem.Batch) { s.SetSettingsTo(b, stream, event.Settings{MaxCount: 2}) })
		}
		beside := open(t, &sealingLog{log, func() { do(t, s, func(b *mainstem.Batch) { s.ArchiveTo(b, "a-1") }) }}, nil)
		done, err := beside.Scavenge(t.Context())
		if err != nil || done != (event.Scavenged{Streams: 1, Events: 3}) {
			t.Errorf("scavenged %+v, %v", done, err)
		}
		if a, b := len(load(t, s, "a-1", nil)), len(load(t, s, "b-1", nil)); a != 5 || b != 2 {
			t.Errorf("%d and %d events are left, want 5 and 2", a, b)
		}
	})
}

// A seal that cannot be read is an error of a list, as it is one of an append.
func TestListWithCorruptSeal(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		for _, stream := range []string{"a-1", "b-1"} {
			write(t, s, stream, event.NoStream, some("A", 1))
		}
		do(t, s, func(b *mainstem.Batch) {
			s.ArchiveTo(b, "b-1")
			b.Put("event.seal/"+s.Name(), []byte("a-1"), []byte("closed"))
		})
		_, err := s.CountStreams(t.Context(), nil)
		wantKind(t, err, mainstem.ErrCorrupt)
	})
}

// Each write at once does what the one into a batch does.
func TestWritesAtOnce(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log, s *event.Store) {
		ctx := t.Context()
		write(t, s, "order-1", event.NoStream, some("A", 3))
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		check(s.SetSettings(ctx, "order-1", event.Settings{MaxCount: 7}))
		if v, err := s.Settings(ctx, "order-1"); err != nil || v.MaxCount != 7 {
			t.Errorf("settings %+v, %v", v, err)
		}
		check(s.SaveSnapshot(ctx, event.Snapshot{Stream: "order-1", Version: 3, Data: []byte("x")}))
		if snap, err := s.Snapshot(ctx, "order-1", 0); err != nil || snap.Version != 3 {
			t.Errorf("snapshot %+v, %v", snap, err)
		}
		check(s.DeleteSnapshots(ctx, "order-1"))
		_, err := s.Snapshot(ctx, "order-1", 0)
		wantKind(t, err, mainstem.ErrNotFound)
		check(s.SetCheckpoint(ctx, "sub", 1))
		if cp, err := s.Checkpoint(ctx, "sub"); err != nil || cp.Position != 1 {
			t.Errorf("checkpoint %+v, %v", cp, err)
		}
		check(s.DeleteCheckpoint(ctx, "sub"))
		_, err = s.Checkpoint(ctx, "sub")
		wantKind(t, err, mainstem.ErrNotFound)
		evs := load(t, s, "order-1", nil)
		check(s.Rewrite(ctx, "order-1", 2, event.Event{ID: evs[1].ID, Type: "Redacted"}))
		check(s.Truncate(ctx, "order-1", 2))
		if evs := load(t, s, "order-1", nil); len(evs) != 2 || evs[0].Type != "Redacted" {
			t.Errorf("%+v", evs)
		}
		check(s.Archive(ctx, "order-1"))
		var sealed *event.SealedError
		if err := s.Archive(ctx, "order-1"); !errors.As(err, &sealed) {
			t.Errorf("archive again: %v", err)
		}
		b := mainstem.NewBatch()
		check(s.UnarchiveTo(ctx, b, "order-1"))
		if _, err := log.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
		if err, again := s.UnarchiveTo(ctx, b, "order-1"), b.Err(); !errors.Is(err, mainstem.ErrNotFound) || err != again {
			t.Errorf("unarchive again: %v; the batch has %v", err, again)
		}
		check(s.Delete(ctx, "order-1", event.StreamExists))
		wantKind(t, s.Delete(ctx, "order-1", event.StreamExists), mainstem.ErrNotFound)
		check(s.Forget(ctx, "order-1"))
		check(s.Tombstone(ctx, "order-1", event.AnyVersion))
		if err := s.Unarchive(ctx, "order-1"); !errors.As(err, &sealed) || sealed.Seal != event.Tombstoned {
			t.Errorf("unarchive of a tombstoned stream: %v", err)
		}
	})
}
