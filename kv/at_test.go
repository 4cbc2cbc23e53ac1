package kv_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/kv"
)

func head(t testing.TB, log mainstem.Log) mainstem.Position {
	t.Helper()
	return must[mainstem.Position](t)(log.Head(t.Context()))
}

// A table that keeps all history shows every moment of it as it was.
func TestThePastIsAsItWas(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx, round := t.Context(), 0
		rapid.Check(t, func(rt *rapid.T) {
			round++
			b := open[string](t, log, fmt.Sprintf("t%d", round), &kv.Options{History: kv.HistoryAll})
			now, past := map[string]string{}, map[mainstem.Position]map[string]string{}
			for i := range rapid.IntRange(1, 12).Draw(rt, "writes") {
				key := anyKey.Draw(rt, "key")
				if rapid.IntRange(0, 2).Draw(rt, "what") == 0 {
					check(t, b.Delete(ctx, key))
					delete(now, key)
				} else {
					now[key] = fmt.Sprint(i)
					put(t, b, key, now[key])
				}
				if p := head(t, log); p > 0 {
					past[p] = maps.Clone(now)
				}
			}
			for p, want := range past {
				got := map[string]string{}
				for _, e := range collect(t, b.At(kv.AtPosition(p)).List(ctx, nil)) {
					got[e.Key] = e.Value
				}
				if !maps.Equal(got, want) {
					rt.Fatalf("at %d: %v, want %v", p, got, want)
				}
				key := anyKey.Draw(rt, "one")
				e, err := b.At(kv.AtPosition(p)).Get(ctx, key)
				if value, there := want[key]; there != (err == nil) || e.Value != value || !there && !errors.Is(err, mainstem.ErrNotFound) {
					rt.Fatalf("%q at %d: %+v, %v, want %q", key, p, e, err, value)
				}
			}
		})
	})
}

func TestQueriesOfThePast(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[string](t, log, "t", &kv.Options{History: kv.HistoryAll})
		for _, key := range []string{"a1", "a2", "b1", "b2", "c1"} {
			put(t, b, key, "old")
		}
		check(t, b.Delete(ctx, "b1"))
		p := head(t, log)
		put(t, b, "a0", "new")
		put(t, b, "b1", "new")
		check(t, b.Delete(ctx, "a1"))
		past := b.At(kv.AtPosition(p))
		for _, c := range []struct {
			q    *kv.Query
			want []string
		}{
			{nil, []string{"a1", "a2", "b2", "c1"}},
			{&kv.Query{Prefix: "a"}, []string{"a1", "a2"}},
			{&kv.Query{Suffix: "2"}, []string{"a2", "b2"}},
			{&kv.Query{Start: "a2", End: "c"}, []string{"a2", "b2"}},
			{&kv.Query{Reverse: true, Limit: 2}, []string{"c1", "b2"}},
			{&kv.Query{Offset: 1, Limit: 2}, []string{"a2", "b2"}},
			{&kv.Query{After: "a2", KeysOnly: true}, []string{"b2", "c1"}},
		} {
			var got []string
			for _, e := range collect(t, past.List(ctx, c.q)) {
				got = append(got, e.Key)
				if want := "old"; e.Value != want && (c.q == nil || !c.q.KeysOnly) {
					t.Errorf("%+v: %+v", c.q, e)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%+v: %v, want %v", c.q, got, c.want)
			}
		}
		_, err := b.At(kv.Point{}).Get(ctx, "a")
		wantErr(t, err, mainstem.ErrInvalid)
		if got := collect(t, open[string](t, log, "none", nil).At(kv.AtPosition(1)).List(ctx, nil)); len(got) > 0 {
			t.Errorf("a table that does not exist had %v", got)
		}
	})
}

// What is not held any more is said to be so, and no older value comes in its place.
func TestHistoryThatIsNotHeld(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *testkit.Clock) {
		ctx := t.Context()
		b := open[string](t, log, "t", &kv.Options{History: 2})
		gone := func(name, key string, at kv.Point) {
			t.Helper()
			_, err := b.At(at).Get(ctx, key)
			var h *kv.HistoryError
			if wantErr(t, err, mainstem.ErrNotFound); !errors.As(err, &h) || h.Key != key {
				t.Errorf("%s: %v", name, err)
			}
		}
		put(t, b, "many", "1")
		first, t1 := head(t, log), clock.Now()
		clock.Advance(time.Minute)
		put(t, b, "many", "2")
		second, t2 := head(t, log), clock.Now()
		if e := must[kv.Entry[string]](t)(b.At(kv.AtTime(t1)).Get(ctx, "many")); e.Value != "1" {
			t.Errorf("at the first time: %+v", e)
		}
		clock.Advance(time.Minute)
		put(t, b, "many", "3")
		gone("superseded", "many", kv.AtPosition(first))
		gone("superseded, by time", "many", kv.AtTime(t2.Add(-1)))
		if e := must[kv.Entry[string]](t)(b.At(kv.AtTime(t2)).Get(ctx, "many")); e.Value != "2" || e.Position != second {
			t.Errorf("at the second time: %+v", e)
		}
		_, err := b.At(kv.AtPosition(first)).Get(ctx, "never")
		if h := (*kv.HistoryError)(nil); !errors.Is(err, mainstem.ErrNotFound) || errors.As(err, &h) {
			t.Errorf("a key that never was: %v", err)
		}

		put(t, b, "purged", "1")
		p := head(t, log)
		check(t, b.Purge(ctx, "purged"))
		gone("purged", "purged", kv.AtPosition(p))

		put(t, b, "ends", "before")
		put(t, b, "ends", "soon", kv.TTL(time.Minute))
		p = head(t, log)
		if e := must[kv.Entry[string]](t)(b.At(kv.AtPosition(p)).Get(ctx, "ends")); e.Value != "soon" {
			t.Errorf("before it expires: %+v", e)
		}
		_, err = b.At(kv.AtTime(clock.Now().Add(time.Hour))).Get(ctx, "ends") // it will be over
		wantErr(t, err, mainstem.ErrNotFound)
		clock.Advance(time.Minute)
		gone("expired", "ends", kv.AtPosition(p))
		check(t, log.Sweep(ctx))
		gone("expired and swept", "ends", kv.AtPosition(p))

		var listed, missing []string
		for e, err := range b.At(kv.AtPosition(p)).List(ctx, nil) {
			if h := (*kv.HistoryError)(nil); errors.As(err, &h) {
				missing = append(missing, e.Key)
				continue
			}
			check(t, err)
			listed = append(listed, e.Key)
		}
		if !slices.Equal(listed, []string{"many"}) || !slices.Equal(missing, []string{"ends"}) {
			t.Errorf("listed %v, missing %v", listed, missing)
		}
	})
}

// A table that forgets deletions cannot be listed as it was before it forgot them.
func TestListsFromBeforeDeletionsWereForgotten(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *testkit.Clock) {
		ctx := t.Context()
		b := open[string](t, log, "t", &kv.Options{History: 5})
		lasting := open[string](t, log, "lasting", &kv.Options{History: 5, TombstoneAge: -1})
		aged := open[string](t, log, "aged", &kv.Options{MaxAge: time.Hour})
		for _, b := range []*kv.Bucket[string]{b, lasting, aged} {
			put(t, b, "gone", "v")
			put(t, b, "there", "v")
		}
		p, then := head(t, log), clock.Now()
		clock.Advance(time.Second)
		for _, b := range []*kv.Bucket[string]{b, lasting} {
			check(t, b.Delete(ctx, "gone"))
		}
		for _, at := range []kv.Point{kv.AtPosition(p), kv.AtTime(then)} {
			if got := collect(t, b.At(at).List(ctx, nil)); len(got) != 2 {
				t.Errorf("at %s: %v", at, got)
			}
		}
		clock.Advance(25 * time.Hour)
		check(t, log.Sweep(ctx))
		for _, at := range []kv.Point{kv.AtPosition(p), kv.AtTime(then)} {
			for e, err := range b.At(at).List(ctx, nil) {
				var h *kv.HistoryError
				if wantErr(t, err, mainstem.ErrNotFound); !errors.As(err, &h) || e.Key != "" {
					t.Errorf("at %s: %+v, %v", at, e, err)
				}
			}
			if got := collect(t, lasting.At(at).List(ctx, nil)); len(got) != 2 {
				t.Errorf("with tombstones that stay, at %s: %v", at, got)
			}
			for _, err := range aged.At(at).List(ctx, nil) {
				wantErr(t, err, mainstem.ErrUnsupported)
			}
		}
		if got := collect(t, b.At(kv.AtPosition(head(t, log))).List(ctx, nil)); len(got) != 1 {
			t.Errorf("now: %v", got)
		}
	})
}

// The tombstone of a deleted key is gone, and no record from before the deletion says when the moment
// was: a list or a read as of a moment before it is refused, and does not miss the key.
func TestThePastOfKeysThatLeftNoRecord(t *testing.T) {
	for name, o := range map[string]*kv.Options{
		"feed":    {History: 5},
		"no feed": {History: 5, NoFeed: true},
		"MaxAge":  {History: 5, MaxAge: 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			eachClock(t, func(t *testing.T, log sweeper, clock *testkit.Clock) {
				ctx := t.Context()
				b := open[string](t, log, "t", o)
				put(t, b, "gone", "v")
				put(t, b, "there", "v")
				p := head(t, log)
				at := b.At(kv.AtPosition(p))
				plain := func(key string) {
					t.Helper()
					_, err := at.Get(ctx, key)
					if h := (*kv.HistoryError)(nil); !errors.Is(err, mainstem.ErrNotFound) || errors.As(err, &h) {
						t.Errorf("%s: %v", key, err)
					}
				}
				plain("never")
				clock.Advance(time.Second)
				check(t, b.Delete(ctx, "gone"))
				plain("never") // no later than the deletion is forgotten
				if o.MaxAge == 0 {
					if got := collect(t, at.List(ctx, nil)); len(got) != 2 {
						t.Errorf("at %d: %v", p, got)
					}
				}
				clock.Advance(25 * time.Hour)
				check(t, log.Sweep(ctx))
				put(t, b, "x", "v")

				var h *kv.HistoryError
				_, err := at.Get(ctx, "gone")
				if wantErr(t, err, mainstem.ErrNotFound); !errors.As(err, &h) || !h.Time.Equal(clock.Now().Add(-24*time.Hour)) {
					t.Errorf("get: %v", err)
				}
				for e, err := range at.List(ctx, nil) {
					if o.MaxAge > 0 {
						wantErr(t, err, mainstem.ErrUnsupported)
					} else if !errors.As(err, &h) || e.Key != "" {
						t.Errorf("list: %+v, %v", e, err)
					}
				}
				if at = b.At(kv.AtPosition(head(t, log))); o.MaxAge == 0 {
					plain("never")
					if got := collect(t, at.List(ctx, nil)); len(got) != 2 {
						t.Errorf("now: %v", got)
					}
				}
			})
		})
	}
}

// A moment whose own record was superseded is dated by the record before it.
func TestThePastOfAPositionWithoutARecord(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *testkit.Clock) {
		ctx := t.Context()
		b := open[string](t, log, "t", &kv.Options{History: 5})
		other := open[string](t, log, "other", nil)
		put(t, b, "gone", "v")
		clock.Advance(25 * time.Hour) // from here on the age of the table does not say that nothing is forgotten
		put(t, b, "there", "v")
		for range 3 {
			put(t, other, "counter", "v")
		}
		p := head(t, log)
		put(t, other, "counter", "v")
		check(t, b.Delete(ctx, "gone"))
		if got := collect(t, b.At(kv.AtPosition(p)).List(ctx, nil)); len(got) != 2 {
			t.Errorf("%v", got)
		}
		_, err := b.At(kv.AtPosition(p)).Get(ctx, "never")
		if h := (*kv.HistoryError)(nil); !errors.Is(err, mainstem.ErrNotFound) || errors.As(err, &h) {
			t.Errorf("never: %v", err)
		}
	})
}
