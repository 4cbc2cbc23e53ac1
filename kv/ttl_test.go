package kv_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/kv"
)

func TestTTL(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *testkit.Clock) {
		ctx := t.Context()
		b := open[string](t, log, "t", &kv.Options{TTL: time.Hour})
		put(t, b, "default", "v")
		put(t, b, "minute", "v", kv.TTL(time.Minute))
		put(t, b, "never", "v", kv.TTL(0))

		e := must[kv.Entry[string]](t)(b.Get(ctx, "minute"))
		if want := clock.Now().Add(time.Minute); !e.Expires.Equal(want) {
			t.Fatalf("expires %v, want %v", e.Expires, want)
		}
		if e := must[kv.Entry[string]](t)(b.Get(ctx, "never")); !e.Expires.IsZero() {
			t.Fatalf("expires %v, want never", e.Expires)
		}
		for _, step := range []struct {
			advance time.Duration
			want    []string
		}{
			{59 * time.Second, []string{"default", "minute", "never"}},
			{time.Second, []string{"default", "never"}},
			{time.Hour, []string{"never"}},
		} {
			clock.Advance(step.advance)
			for _, when := range []string{"before", "after"} {
				if got := collect(t, b.Keys(ctx, nil)); !slices.Equal(got, step.want) {
					t.Fatalf("keys %s the sweep: %q, want %q", when, got, step.want)
				}
				check(t, log.Sweep(ctx))
			}
		}
		_, err := b.Get(ctx, "minute")
		wantErr(t, err, mainstem.ErrNotFound)
	})
}

func TestEveryWriteStartsANewTTL(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *testkit.Clock) {
		ctx := t.Context()
		b := open[int64](t, log, "t", nil)
		put(t, b, "k", 1, kv.TTL(time.Minute))
		clock.Advance(30 * time.Second)
		e := must[kv.Entry[int64]](t)(b.Modify(ctx, "k", func(n int64, _ bool) (int64, error) { return n + 1, nil }, kv.TTL(time.Minute)))
		if want := clock.Now().Add(time.Minute); !e.Expires.Equal(want) {
			t.Fatalf("Modify says it expires %v, want %v", e.Expires, want)
		}
		clock.Advance(45 * time.Second)
		if n := must[int64](t)(kv.Increment(ctx, b, "k", 1)); n != 3 {
			t.Fatalf("the counter is %d", n)
		}
		clock.Advance(time.Hour)
		if e := must[kv.Entry[int64]](t)(b.Get(ctx, "k")); e.Value != 3 || !e.Expires.IsZero() {
			t.Fatalf("entry %+v: want one that stays", e)
		}
	})
}

// An expired lease is absent to Create and conflicts with Update, before and
// after the engine has removed it.
func TestCompareAndSetMeetsExpiry(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *testkit.Clock) {
		ctx := t.Context()
		b := open[string](t, log, "locks", nil)
		for _, swept := range []bool{false, true} {
			rev := must[kv.Revision](t)(b.Create(ctx, "lock", "me", kv.TTL(time.Minute)))
			rev = must[kv.Revision](t)(b.Update(ctx, "lock", "me", rev, kv.TTL(time.Minute)))
			_, err := b.Create(ctx, "lock", "you")
			wantErr(t, err, mainstem.ErrExists)
			clock.Advance(time.Minute)
			if swept {
				check(t, log.Sweep(ctx))
			}
			_, err = b.Update(ctx, "lock", "me", rev)
			wantErr(t, err, mainstem.ErrConflict)
			taken := must[kv.Revision](t)(b.Create(ctx, "lock", "you"))
			if taken <= rev {
				t.Fatalf("revision %d after %d: revisions never repeat", taken, rev)
			}
			check(t, b.Delete(ctx, "lock", kv.IfRevision(taken)))
		}
	})
}

func TestMaxAgeHoldsForEveryWriter(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *testkit.Clock) {
		ctx := t.Context()
		b := open[string](t, log, "t", &kv.Options{MaxAge: time.Minute})
		put(t, b, "a", "v")
		other := open[string](t, log, "t", nil) // the table keeps its policy
		put(t, other, "b", "v", kv.TTL(time.Hour))
		clock.Advance(2 * time.Minute)
		if n := must[int64](t)(b.Count(ctx, nil)); n != 0 {
			t.Fatalf("%d keys are older than the table allows", n)
		}
	})
}

// While the clock is behind, the times of the log stand still, and times to live run by
// the clock. What Modify reports is what Get reports, and what comes to pass.
func TestExpiresWhileTheClockIsBehind(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *testkit.Clock) {
		ctx := t.Context()
		b := open[int64](t, log, "t", nil)
		put(t, b, "other", 1)
		clock.Advance(-time.Hour)
		e := must[kv.Entry[int64]](t)(b.Modify(ctx, "k", func(n int64, _ bool) (int64, error) { return n + 1, nil }, kv.TTL(time.Minute)))
		if want := clock.Now().Add(time.Minute); !e.Expires.Equal(want) {
			t.Errorf("Modify says it expires %v, want %v", e.Expires, want)
		}
		if got := must[kv.Entry[int64]](t)(b.Get(ctx, "k")); !got.Expires.Equal(e.Expires) || !got.Modified.Equal(e.Modified) {
			t.Errorf("Modify says %v, expires %v; Get %v, expires %v", e.Modified, e.Expires, got.Modified, got.Expires)
		}
		clock.Advance(time.Minute - 1)
		must[kv.Entry[int64]](t)(b.Get(ctx, "k"))
		clock.Advance(1)
		_, err := b.Get(ctx, "k")
		wantErr(t, err, mainstem.ErrNotFound)
	})
}

// Modify whose value another write replaces at once still says when it was to expire.
func TestModifyThatWasReplacedExpires(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *testkit.Clock) {
		b := open[string](t, overtaken{log}, "t", nil)
		e := must[kv.Entry[string]](t)(b.Modify(t.Context(), "k", func(string, bool) (string, error) { return "v", nil }, kv.TTL(time.Minute)))
		if want := clock.Now().Add(time.Minute); e.Revision != 1 || !e.Expires.Equal(want) {
			t.Fatalf("revision %d expires %v, want 1 and %v", e.Revision, e.Expires, want)
		}
	})
}

// overtaken is a log in which another write of the same key follows each commit at once.
type overtaken struct{ mainstem.Log }

func (o overtaken) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	r, err := o.Log.Commit(ctx, b)
	if err == nil {
		next := mainstem.NewBatch()
		next.Put(b.Writes()[0].Space, b.Writes()[0].Key, nil)
		_, err = o.Log.Commit(ctx, next)
	}
	return r, err
}

// A watch does not take the end of a value, which the clock will reach, for passed because
// the times of the log are ahead of the clock.
func TestWatchWhileTheClockIsBehind(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *testkit.Clock) {
		b := open[string](t, log, "t", nil)
		put(t, b, "other", "v")
		clock.Advance(-time.Hour)
		put(t, b, "k", "a", kv.TTL(time.Minute))
		var ops []kv.Op
		for e, err := range b.Watch(t.Context(), &kv.WatchOptions{Prefix: "k"}) {
			check(t, err)
			switch e.Op {
			case kv.OpSynced:
				put(t, b, "k", "b", kv.TTL(time.Minute))
				continue
			case kv.OpExpire:
				if len(ops) == 2 { // the log may sweep before the last put
					continue
				}
			case kv.OpUpdate:
				if e.Value == "b" {
					clock.Advance(2 * time.Hour)
					put(t, b, "k", "c")
				}
			}
			if ops = append(ops, e.Op); e.Value == "c" || len(ops) > 1 && e.Op != kv.OpUpdate {
				break
			}
		}
		if want := []kv.Op{kv.OpCreate, kv.OpUpdate, kv.OpCreate}; !slices.Equal(ops, want) {
			t.Errorf("the watch saw %v, want %v", ops, want)
		}
	})
}
