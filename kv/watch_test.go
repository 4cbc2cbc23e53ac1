package kv_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/kv"
)

// watcher steps through a Watch.
type watcher[T any] struct {
	t    *testing.T
	next func() (kv.Entry[T], error, bool)
}

func watch[T any](t *testing.T, b *kv.Bucket[T], o *kv.WatchOptions) watcher[T] {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // an entry that never comes
	t.Cleanup(cancel)
	next, stop := iter.Pull2(b.Watch(ctx, o))
	t.Cleanup(stop)
	return watcher[T]{t, next}
}

// want fails the test unless exactly these entries come next: "key op value".
func (w watcher[T]) want(entries ...string) (last mainstem.Position) {
	w.t.Helper()
	for _, want := range entries {
		e, err, ok := w.next()
		if err != nil || !ok {
			w.t.Fatalf("the watch ended with %v instead of %q", err, want)
		}
		if got := event(e); got != want {
			w.t.Fatalf("watch yields %q, want %q", got, want)
		}
		last = e.Position
	}
	return last
}

func event[T any](e kv.Entry[T]) string {
	switch {
	case e.Op == kv.OpSynced:
		return "synced"
	case e.Live():
		return fmt.Sprintf("%s %s %v", e.Key, e.Op, e.Value)
	}
	return fmt.Sprintf("%s %s", e.Key, e.Op)
}

func TestWatch(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[string](t, log, "t", nil)
		other := open[string](t, log, "other", nil)
		put(t, b, "c", "3")
		put(t, b, "a", "0")
		put(t, b, "a", "1")
		put(t, b, "gone", "x")
		check(t, b.Delete(ctx, "gone"))
		put(t, other, "a", "x")

		w := watch(t, b, nil)
		w.want("a update 1", "c create 3", "synced")
		put(t, b, "a", "2")
		put(t, other, "b", "x")
		put(t, b, "d", "4")
		check(t, b.Delete(ctx, "a"))
		put(t, b, "a", "5")
		put(t, b, "a", "6")
		check(t, b.Delete(ctx, "never there"))
		check(t, b.Purge(ctx, "c"))
		put(t, b, "c", "7")
		put(t, b, "gone", "8")
		put(t, b, "gone", "9")
		// The table keeps one revision: what was superseded before the watch got there
		// is skipped, and the entries follow from what it told before.
		w.want("d create 4", "a update 6", "c update 7", "gone create 9")
		put(t, b, "gone", "10")
		w.want("gone update 10")
		check(t, b.Delete(ctx, "gone"))
		w.want("gone delete")
		check(t, b.Purge(ctx, "c"))
		w.want("c purge")
	})
}

func TestWatchSeesEveryRevisionThatIsKept(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[int](t, log, "t", &kv.Options{History: kv.HistoryAll})
		put(t, b, "k", 1)
		put(t, b, "k", 2)
		current, all := watch(t, b, nil), watch(t, b, &kv.WatchOptions{History: true})
		current.want("k update 2", "synced")
		all.want("k create 1", "k update 2", "synced")
		for i := range 3 {
			put(t, b, "k", i)
			check(t, b.Delete(ctx, "k"))
		}
		for _, w := range []watcher[int]{current, all} {
			w.want("k update 0", "k delete", "k create 1", "k delete", "k create 2", "k delete")
		}
	})
}

func TestWatchOptions(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[string](t, log, "t", nil)
		put(t, b, "a/1", "x", kv.Metadata(map[string]string{"m": "y"}))
		put(t, b, "b/1", "x")

		prefix := watch(t, b, &kv.WatchOptions{Prefix: "b/"})
		updates := watch(t, b, &kv.WatchOptions{UpdatesOnly: true})
		meta := watch(t, b, &kv.WatchOptions{MetaOnly: true})
		kept := watch(t, b, &kv.WatchOptions{IgnoreDeletes: true, History: true})
		prefix.want("b/1 create x", "synced")
		updates.want("synced")
		e, err, _ := meta.next()
		if err != nil || e.Key != "a/1" || e.Value != "" || e.Metadata["m"] != "y" || !e.Live() {
			t.Fatalf("MetaOnly yields %+v, %v", e, err)
		}
		meta.want("b/1 create ", "synced")
		kept.want("a/1 create x", "b/1 create x", "synced")

		check(t, b.Delete(ctx, "a/1"))
		updates.want("a/1 delete")
		meta.want("a/1 delete")
		put(t, b, "b/2", "y")
		prefix.want("b/2 create y")
		updates.want("b/2 create y")
		meta.want("b/2 create ")
		kept.want("b/2 create y")
		put(t, b, "a/1", "z")
		kept.want("a/1 create z") // a deletion not shown is not forgotten
	})
}

func TestWatchOfATableMadeLater(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[string](t, log, "t", nil)
		w := watch(t, b, nil)
		w.want("synced")
		put(t, b, "k", "v")
		w.want("k create v")
	})
}

func TestWatchTellsOfExpiry(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *testkit.Clock) {
		ctx := t.Context()
		b := open[string](t, log, "t", nil)
		put(t, b, "old", "v", kv.TTL(time.Minute))
		w := watch(t, b, nil)
		w.want("old create v", "synced")
		put(t, b, "new", "v", kv.TTL(time.Minute))
		w.want("new create v")
		clock.Advance(time.Minute)
		put(t, b, "new", "w") // a new life, whether or not the engine has removed the old one
		check(t, log.Sweep(ctx))
		var reported []string
		for len(reported) < 2 {
			e, err, _ := w.next()
			check(t, err)
			if s := event(e); s != "new expire" {
				reported = append(reported, s)
			}
		}
		slices.Sort(reported)
		if want := []string{"new create w", "old expire"}; !slices.Equal(reported, want) {
			t.Fatalf("watch yields %q, want %q in some order", reported, want)
		}
		put(t, b, "old", "w")
		w.want("old create w")
	})
}

func TestWatchResumes(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[string](t, log, "t", &kv.Options{History: 10})
		put(t, b, "a", "1")
		put(t, b, "b", "1")
		marker := watch(t, b, nil).want("a create 1", "b create 1", "synced")
		put(t, b, "a", "2")
		check(t, b.Delete(ctx, "b"))
		put(t, b, "b", "2")
		changed := watch(t, b, &kv.WatchOptions{After: marker}).want("a update 2", "b delete")
		w := watch(t, b, &kv.WatchOptions{After: changed})
		end := w.want("b create 2", "synced") // created, though the deletion is behind it
		put(t, b, "c", "1")
		w.want("c create 1")

		w = watch(t, b, &kv.WatchOptions{After: end + 100}) // a position of the future
		if got := w.want("synced"); got < end+100 {
			t.Fatalf("the marker is at %d, before the position asked for", got)
		}
	})
}

// In a table that keeps one revision, what a resumed watch cannot know is an
// update, and what it can know is right.
func TestCreatedOrUpdatedAfterResuming(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[string](t, log, "t", nil)
		for _, k := range []string{"put", "create", "batch", "updated", "seen"} {
			put(t, b, k, "1")
		}
		at := watch(t, b, &kv.WatchOptions{UpdatesOnly: true}).want("synced")
		for _, k := range []string{"put", "create", "batch", "seen"} {
			check(t, b.Delete(ctx, k))
		}
		must[kv.Revision](t)(b.Create(ctx, "create", "2"))
		batch := mainstem.NewBatch()
		b.PutTo(batch, "batch", "2", kv.IfAbsent())
		must[mainstem.Receipt](t)(log.Commit(ctx, batch))
		put(t, b, "put", "2")
		must[kv.Revision](t)(b.Update(ctx, "updated", "2", 1))
		w := watch(t, b, &kv.WatchOptions{After: at})
		w.want("seen delete", "create create 2", "batch create 2", "put update 2", "updated update 2", "synced")
		put(t, b, "seen", "2")
		w.want("seen create 2")
	})
}

func TestWatchNeedsAFeed(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[string](t, log, "t", &kv.Options{NoFeed: true})
		for range 2 { // before and after the table exists
			n := 0
			for _, err := range b.Watch(t.Context(), nil) {
				wantErr(t, err, mainstem.ErrUnsupported)
				n++
			}
			if n != 1 {
				t.Fatalf("the watch yields %d times", n)
			}
			put(t, b, "k", "v")
		}
		for _, err := range open[string](t, log, "t", nil).Watch(t.Context(), nil) { // the table's policy counts
			wantErr(t, err, mainstem.ErrUnsupported)
		}
	})
}

func TestWatchEnds(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[string](t, log, "t", nil)
		put(t, b, "k", "v")
		for range b.Watch(t.Context(), nil) {
			break // in the current values
		}
		for e := range b.Watch(t.Context(), nil) {
			if e.Op == kv.OpSynced {
				break
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		for e, err := range b.Watch(ctx, nil) {
			if last = err; e.Op == kv.OpSynced {
				time.AfterFunc(time.Millisecond, cancel)
			}
		}
		wantErr(t, last, mainstem.ErrCanceled)
		for e, err := range b.Watch(t.Context(), nil) {
			if last = err; e.Op == kv.OpSynced {
				time.AfterFunc(time.Millisecond, func() { check(t, log.Close()) })
			}
		}
		wantErr(t, last, mainstem.ErrClosed)
	})
}

func TestWatchGoesOnAfterAnUndecodableValue(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		text := open[string](t, log, "t", nil)
		put(t, text, "a", "not JSON")
		users := open[user](t, log, "t", nil)
		w := watch(t, users, nil)
		for range 2 {
			e, err, ok := w.next()
			wantErr(t, err, mainstem.ErrCorrupt)
			if !ok || e.Key != "a" || e.Revision == 0 || e.Position == 0 {
				t.Fatalf("entry %+v lacks what can be read", e)
			}
			if e.Revision == 1 {
				w.want("synced")
				put(t, text, "a", "still not JSON")
			}
		}
		put(t, users, "a", user{"Ada", 1})
		w.want("a update {Ada 1}")
	})
}

// Whatever is written while a watch goes through its phases, and wherever it is
// stopped and resumed, it tells of every revision once, in order.
func TestWatchLosesAndRepeatsNothing(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		round := 0
		rapid.Check(t, func(rt *rapid.T) {
			round++
			b := open[int](t, log, fmt.Sprintf("t%d", round), &kv.Options{History: kv.HistoryAll})
			keys := rapid.IntRange(1, 8).Draw(rt, "keys")
			before := rapid.IntRange(0, 30).Draw(rt, "writes before")
			writers := rapid.IntRange(1, 3).Draw(rt, "writers")
			each := rapid.IntRange(0, 40).Draw(rt, "writes each")
			stop := rapid.SampledFrom([]int{1, 3, 10, 1 << 20}).Draw(rt, "resume after")
			o := kv.WatchOptions{History: rapid.Bool().Draw(rt, "history"), Prefix: rapid.SampledFrom([]string{"", "k"}).Draw(rt, "prefix")}
			seed := rapid.Uint64().Draw(rt, "seed")

			write := func(rng *rand.Rand, n int) {
				for range n {
					key := fmt.Sprint("k", rng.IntN(keys))
					var err error
					if rng.IntN(3) == 0 {
						err = b.Delete(t.Context(), key)
					} else {
						_, err = b.Put(t.Context(), key, int(rng.Int32()))
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			}
			write(rand.New(rand.NewPCG(seed, 0)), before)
			var wg sync.WaitGroup
			for i := range writers {
				wg.Go(func() { write(rand.New(rand.NewPCG(seed, uint64(i+1))), each) })
			}
			reported := follow(t, b, o, stop, &wg)
			for key, entries := range reported {
				wantSequence(rt, b, key, entries, o.History)
			}
			for key, err := range b.Keys(t.Context(), nil) {
				check(t, err)
				if len(reported[key]) == 0 {
					rt.Fatalf("nothing told of %q", key)
				}
			}
		})
	})
}

// follow collects what a watch tells by key, until writers are done and a last
// key was told of. It resumes after every n entries.
func follow(t *testing.T, b *kv.Bucket[int], o kv.WatchOptions, n int, writers *sync.WaitGroup) map[string][]kv.Entry[int] {
	t.Helper()
	reported := map[string][]kv.Entry[int]{}
	var end sync.WaitGroup
	defer end.Wait()
	end.Go(func() {
		writers.Wait()
		if _, err := b.Put(t.Context(), "k~end", 0); err != nil {
			t.Error(err)
		}
	})
	for {
		resumable := o.History || o.After > 0
		left := n
		for e, err := range b.Watch(t.Context(), &o) {
			check(t, err)
			if e.Op != kv.OpSynced {
				reported[e.Key] = append(reported[e.Key], e)
			}
			if e.Key == "k~end" {
				return reported
			}
			if resumable = resumable || e.Op == kv.OpSynced; resumable {
				o.After = e.Position
				if left--; left == 0 {
					break
				}
			}
		}
	}
}

// wantSequence fails the test unless entries are the history of key, from the
// first revision or, for a watch of current values, from some live one.
func wantSequence(rt *rapid.T, b *kv.Bucket[int], key string, entries []kv.Entry[int], whole bool) {
	var history []kv.Entry[int]
	for e, err := range b.History(context.Background(), key, mainstem.Versions{}) {
		if err != nil {
			rt.Fatal(err)
		}
		history = append(history, e)
	}
	skipped := len(history) - len(entries)
	if skipped < 0 || whole && skipped > 0 {
		rt.Fatalf("%q: told of %d revisions of %d", key, len(entries), len(history))
	}
	for i, e := range entries {
		h := history[skipped+i]
		if i == 0 && !whole {
			e.Op = h.Op // a current value: its past is not told
		}
		if e.Revision != h.Revision || e.Value != h.Value || e.Op != h.Op || e.Position != h.Position {
			rt.Fatalf("%q: told %+v, the history has %+v", key, e, h)
		}
	}
}

// A watch that is slower than the writers skips what was superseded, never the
// newest state, and holds up nobody.
func TestSlowWatchSeesTheNewestState(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[int](t, log, "t", nil)
		const keys, writes = 20, 2000
		state := map[string]int{}
		revisions := map[string]kv.Revision{}
		reported, synced := 0, false
		for e, err := range b.Watch(t.Context(), nil) {
			check(t, err)
			if e.Op == kv.OpSynced {
				synced = true // and now everything at once, while the watch stands still
				for i := range writes {
					put(t, b, fmt.Sprint(i%keys), i)
				}
				put(t, b, "end", 0)
				continue
			}
			if e.Revision <= revisions[e.Key] {
				t.Fatalf("%q: revision %d after %d", e.Key, e.Revision, revisions[e.Key])
			}
			state[e.Key], revisions[e.Key] = e.Value, e.Revision
			reported++
			if e.Key == "end" {
				break
			}
		}
		want := map[string]int{"end": 0}
		for i := range writes {
			want[fmt.Sprint(i%keys)] = i
		}
		if !maps.Equal(state, want) || !synced || reported > writes {
			t.Fatalf("the watch ends with %v after %d entries, want %v", state, reported, want)
		}
	})
}

// Many watches beside many writers: each ends with the state of the table.
func TestWatchUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[int](t, log, "t", nil)
		const watches, writers, writes = 4, 4, 200
		var wg, done sync.WaitGroup
		states := make([]map[string]int, watches)
		for i := range watches {
			done.Go(func() {
				state := map[string]int{}
				for e, err := range b.Watch(t.Context(), nil) {
					if err != nil {
						t.Error(err)
						return
					}
					if e.Live() {
						state[e.Key] = e.Value
					} else {
						delete(state, e.Key)
					}
					if e.Key == "end" {
						break
					}
				}
				states[i] = state
			})
		}
		for w := range writers {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(w), 1))
				for i := range writes {
					key := fmt.Sprint(rng.IntN(20))
					var err error
					if rng.IntN(4) == 0 {
						err = b.Delete(t.Context(), key)
					} else {
						_, err = b.Put(t.Context(), key, i)
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		put(t, b, "end", 0)
		done.Wait()
		want := map[string]int{}
		for _, e := range collect(t, b.List(t.Context(), nil)) {
			want[e.Key] = e.Value
		}
		for i, state := range states {
			if !maps.Equal(state, want) {
				t.Errorf("watch %d ends with %v, want %v", i, state, want)
			}
		}
	})
}
