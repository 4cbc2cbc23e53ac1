package kv_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/kv"
)

func describe[T any](entries []kv.Entry[T]) []string {
	var out []string
	for _, e := range entries {
		s := fmt.Sprintf("%d %s", e.Revision, e.Op)
		if e.Live() {
			s += fmt.Sprintf(" %v", e.Value)
		}
		out = append(out, s)
	}
	return out
}

func wantList[T any](t *testing.T, what string, got []kv.Entry[T], want ...string) {
	t.Helper()
	if got := describe(got); !slices.Equal(got, want) {
		t.Errorf("%s:\ngot  %q\nwant %q", what, got, want)
	}
}

func TestHistory(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[string](t, log, "t", &kv.Options{History: 4})
		history := func(v mainstem.Versions) []kv.Entry[string] { return collect(t, b.History(ctx, "k", v)) }
		put(t, b, "k", "a")
		put(t, b, "k", "b")
		check(t, b.Delete(ctx, "k"))
		put(t, b, "k", "c")
		wantList(t, "oldest first", history(mainstem.Versions{}), "1 create a", "2 update b", "3 delete", "4 create c")
		wantList(t, "newest first", history(mainstem.Versions{Reverse: true}), "4 create c", "3 delete", "2 update b", "1 create a")
		wantList(t, "bounded", history(mainstem.Versions{From: 2, To: 3}), "2 update b", "3 delete")
		wantList(t, "limited", history(mainstem.Versions{Reverse: true, Limit: 2}), "4 create c", "3 delete")
		put(t, b, "k", "d")
		wantList(t, "the newest four", history(mainstem.Versions{}), "2 update b", "3 delete", "4 create c", "5 update d")

		if e := must[kv.Entry[string]](t)(b.GetRevision(ctx, "k", 4)); e.Value != "c" || e.Revision != 4 {
			t.Errorf("GetRevision(4) = %+v", e)
		}
		if e := must[kv.Entry[string]](t)(b.GetRevision(ctx, "k", 3)); e.Live() || e.Op != kv.OpDelete {
			t.Errorf("GetRevision(3) = %+v: want the deletion", e)
		}
		for _, rev := range []kv.Revision{0, 1, 6} {
			_, err := b.GetRevision(ctx, "k", rev)
			wantErr(t, err, mainstem.ErrNotFound)
		}
		check(t, b.Purge(ctx, "k"))
		wantList(t, "after a purge", history(mainstem.Versions{}), "6 purge")
	})
}

func TestHistoryDefaultsToTheNewest(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[string](t, log, "t", nil)
		all := open[string](t, log, "all", &kv.Options{History: kv.HistoryAll})
		for i := range 100 {
			put(t, b, "k", fmt.Sprint(i))
			put(t, all, "k", fmt.Sprint(i))
		}
		wantList(t, "the newest", collect(t, b.History(t.Context(), "k", mainstem.Versions{})), "100 update 99")
		if n := len(collect(t, all.History(t.Context(), "k", mainstem.Versions{}))); n != 100 {
			t.Errorf("HistoryAll kept %d of 100", n)
		}
	})
}

func TestHistoryFollows(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[int](t, log, "t", &kv.Options{History: kv.HistoryAll})
		put(t, b, "k", 0)
		next := 0
		for e, err := range b.History(t.Context(), "k", mainstem.Versions{Follow: true}) {
			check(t, err)
			if e.Value != next {
				t.Fatalf("entry %+v, want %d", e, next)
			}
			if next++; next == 20 {
				break
			}
			put(t, b, "k", next)
		}
	})
}

// Where a revision is missing, what the next one did is not told by the one
// before the gap.
func TestHistoryWithAGap(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[string](t, log, "t", &kv.Options{History: kv.HistoryAll})
		put(t, b, "k", "a")
		check(t, b.Delete(ctx, "k"))
		put(t, b, "k", "b")
		put(t, b, "k", "c")
		batch := mainstem.NewBatch()
		batch.Add(mainstem.Write{Op: mainstem.OpRemove, Space: b.Space(), Key: []byte("k"), Version: 3})
		must[mainstem.Receipt](t)(log.Commit(ctx, batch))
		wantList(t, "forward", collect(t, b.History(ctx, "k", mainstem.Versions{})), "1 create a", "2 delete", "4 update c")
		wantList(t, "reverse", collect(t, b.History(ctx, "k", mainstem.Versions{Reverse: true})), "4 update c", "2 delete", "1 create a")
	})
}

func TestPurgeOfADeletedKey(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[string](t, log, "t", &kv.Options{History: 5})
		put(t, b, "k", "a")
		put(t, b, "k", "b")
		check(t, b.Delete(ctx, "k"))
		wantErr(t, b.Purge(ctx, "k", kv.IfExists()), mainstem.ErrConflict)
		for range 2 {
			check(t, b.Purge(ctx, "k"))
			wantList(t, "what is left", collect(t, b.History(ctx, "k", mainstem.Versions{})), "3 delete")
		}
		check(t, b.Purge(ctx, "never"))
		put(t, b, "k", "c")
		wantList(t, "after a new value", collect(t, b.History(ctx, "k", mainstem.Versions{})), "3 delete", "4 create c")
	})
}

func TestPurgeMeetsANewValue(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		l := &between{Log: log}
		b := open[string](t, l, "t", &kv.Options{History: 5})
		put(t, b, "k", "a")
		check(t, b.Delete(t.Context(), "k"))
		l.read = func() { put(t, b, "k", "b") }
		check(t, b.Purge(t.Context(), "k"))
		wantList(t, "what is left", collect(t, b.History(t.Context(), "k", mainstem.Versions{})), "4 purge")
	})
}

func TestPurgeOfAnExpiredKey(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *testkit.Clock) {
		ctx := t.Context()
		b := open[string](t, log, "t", &kv.Options{History: 5})
		put(t, b, "k", "a")
		put(t, b, "k", "b", kv.TTL(time.Minute))
		clock.Advance(time.Minute)
		if e := must[kv.Entry[string]](t)(b.GetRevision(ctx, "k", 1)); e.Value != "a" {
			t.Fatalf("before the purge: %+v", e)
		}
		check(t, b.Purge(ctx, "k"))
		for e, err := range b.History(ctx, "k", mainstem.Versions{}) {
			check(t, err)
			if e.Op != kv.OpExpire { // there only if the engine has swept
				t.Fatalf("left after the purge: %+v", e)
			}
		}
	})
}
