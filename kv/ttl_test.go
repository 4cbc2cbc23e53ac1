package kv_test

import (
	"slices"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

func TestTTL(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *fakeClock) {
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
			clock.advance(step.advance)
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
	eachClock(t, func(t *testing.T, log sweeper, clock *fakeClock) {
		ctx := t.Context()
		b := open[int64](t, log, "t", nil)
		put(t, b, "k", 1, kv.TTL(time.Minute))
		clock.advance(30 * time.Second)
		e := must[kv.Entry[int64]](t)(b.Modify(ctx, "k", func(n int64, _ bool) (int64, error) { return n + 1, nil }, kv.TTL(time.Minute)))
		if want := clock.Now().Add(time.Minute); !e.Expires.Equal(want) {
			t.Fatalf("Modify says it expires %v, want %v", e.Expires, want)
		}
		clock.advance(45 * time.Second)
		if n := must[int64](t)(kv.Increment(ctx, b, "k", 1)); n != 3 {
			t.Fatalf("the counter is %d", n)
		}
		clock.advance(time.Hour)
		if e := must[kv.Entry[int64]](t)(b.Get(ctx, "k")); e.Value != 3 || !e.Expires.IsZero() {
			t.Fatalf("entry %+v: want one that stays", e)
		}
	})
}

// An expired lease is absent to Create and conflicts with Update, before and
// after the engine has removed it.
func TestCompareAndSetMeetsExpiry(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *fakeClock) {
		ctx := t.Context()
		b := open[string](t, log, "locks", nil)
		for _, swept := range []bool{false, true} {
			rev := must[kv.Revision](t)(b.Create(ctx, "lock", "me", kv.TTL(time.Minute)))
			rev = must[kv.Revision](t)(b.Update(ctx, "lock", "me", rev, kv.TTL(time.Minute)))
			_, err := b.Create(ctx, "lock", "you")
			wantErr(t, err, mainstem.ErrExists)
			clock.advance(time.Minute)
			if swept {
				check(t, log.Sweep(ctx))
			}
			_, err = b.Update(ctx, "lock", "me", rev)
			wantErr(t, err, mainstem.ErrConflict)
			taken := must[kv.Revision](t)(b.Create(ctx, "lock", "you"))
			if taken <= rev {
				t.Fatalf("revision %d after %d: revisions never repeat", taken, rev)
			}
			check(t, b.DeleteNow(ctx, "lock", kv.IfRevision(taken)))
		}
	})
}

func TestMaxAgeHoldsForEveryWriter(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *fakeClock) {
		ctx := t.Context()
		b := open[string](t, log, "t", &kv.Options{MaxAge: time.Minute})
		put(t, b, "a", "v")
		other := open[string](t, log, "t", nil) // the table keeps its policy
		put(t, other, "b", "v", kv.TTL(time.Hour))
		clock.advance(2 * time.Minute)
		if n := must[int64](t)(b.Count(ctx, nil)); n != 0 {
			t.Fatalf("%d keys are older than the table allows", n)
		}
	})
}
