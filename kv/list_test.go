package kv_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// selected is what a Query means, told by a sorted slice.
func selected(keys []string, q kv.Query) []string {
	keys = slices.Sorted(slices.Values(keys))
	if q.Reverse {
		slices.Reverse(keys)
	}
	var out []string
	for _, k := range keys {
		if !strings.HasPrefix(k, q.Prefix) || !strings.HasSuffix(k, q.Suffix) || k < q.Start || q.End != "" && k >= q.End {
			continue
		}
		if q.After != "" && (!q.Reverse && k <= q.After || q.Reverse && k >= q.After) {
			continue
		}
		if q.Offset > 0 {
			q.Offset--
			continue
		}
		out = append(out, k)
		if len(out) == q.Limit {
			break
		}
	}
	return out
}

func TestListAgainstASortedSlice(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[string](t, log, "t", nil)
		letter := rapid.SampledFrom([]string{"", "a", "b", "\x00", "\xff", "aa", "ab"})
		key := rapid.Custom(func(t *rapid.T) string {
			return letter.Draw(t, "1") + letter.Draw(t, "2") + letter.Draw(t, "3")
		})
		var keys []string
		rapid.Check(t, func(rt *rapid.T) {
			if k := key.Draw(rt, "new key"); k != "" && len(keys) < 200 {
				if !slices.Contains(keys, k) {
					keys = append(keys, k)
				}
				put(t, b, k, "value of "+k)
			}
			q := kv.Query{
				Prefix: letter.Draw(rt, "prefix"), Suffix: letter.Draw(rt, "suffix"),
				Start: key.Draw(rt, "start"), End: key.Draw(rt, "end"), After: key.Draw(rt, "after"),
				Reverse: rapid.Bool().Draw(rt, "reverse"),
				Offset:  rapid.IntRange(0, 3).Draw(rt, "offset"), Limit: rapid.IntRange(0, 5).Draw(rt, "limit"),
				KeysOnly: rapid.Bool().Draw(rt, "keys only"),
			}
			want := selected(keys, q)
			var got []string
			for _, e := range collect(t, b.List(t.Context(), &q)) {
				got = append(got, e.Key)
				if value := "value of " + e.Key; e.Value != value && !q.KeysOnly || e.Revision == 0 || !e.Live() {
					rt.Fatalf("entry %+v", e)
				}
				if q.KeysOnly && e.Value != "" {
					rt.Fatalf("KeysOnly gave the value %q", e.Value)
				}
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("%+v over %q:\ngot  %q\nwant %q", q, keys, got, want)
			}
			if got := collect(t, b.Keys(t.Context(), &q)); !slices.Equal(got, want) {
				rt.Fatalf("%+v: Keys gives %q, want %q", q, got, want)
			}
			if n := must[int64](t)(b.Count(t.Context(), &q)); n != int64(len(want)) {
				rt.Fatalf("%+v: Count gives %d, want %d", q, n, len(want))
			}
		})
	})
}

func TestListLeavesWhenTheLoopDoes(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[int](t, log, "t", nil)
		for i := range 10 {
			put(t, b, fmt.Sprint(i), i)
		}
		for e, err := range b.List(t.Context(), nil) {
			check(t, err)
			if e.Value == 3 {
				put(t, b, "written inside the loop", 0) // nothing is locked
				break
			}
		}
		for range b.Keys(t.Context(), nil) {
			break
		}
	})
}

// Keys that are there all the time are met exactly once by a walk in pages,
// whatever other keys come and go.
func TestPagesAreStableUnderWrites(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		const n = 10_000
		b := open[int](t, log, "t", nil)
		key := func(i int) string { return fmt.Sprintf("stable-%05d", i) }
		all := func(yield func(kv.Pair[int]) bool) {
			for i := range n {
				if !yield(kv.Pair[int]{Key: key(i), Value: i}) {
					return
				}
			}
		}
		if _, err := b.Import(t.Context(), all, nil); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				at := key(i * 7919 % n)
				batch := mainstem.NewBatch()
				b.PutTo(batch, at+"-new", i)
				b.PutTo(batch, at, i) // a new revision of a stable key
				b.DeleteTo(batch, key((i-50)*7919%n)+"-new")
				if _, err := log.Commit(t.Context(), batch); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for _, reverse := range []bool{false, true} {
			met, pages := 0, 0
			q := kv.Query{Limit: 1000, Reverse: reverse}
			for {
				page, next, err := b.Page(t.Context(), &q)
				check(t, err)
				pages++
				for _, e := range page {
					if strings.HasSuffix(e.Key, "-new") {
						continue
					}
					want := key(met)
					if reverse {
						want = key(n - 1 - met)
					}
					if e.Key != want {
						t.Fatalf("met %q, want %q (reverse %v)", e.Key, want, reverse)
					}
					met++
				}
				if next == "" {
					break
				}
				if next != page[len(page)-1].Key || len(page) != q.Limit {
					t.Fatalf("page of %d ends at %q, cursor %q", len(page), page[len(page)-1].Key, next)
				}
				q.After = next
			}
			if met != n || pages < n/1000 {
				t.Fatalf("met %d of %d keys on %d pages", met, n, pages)
			}
		}
	})
}

func TestPageEndsExactly(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[int](t, log, "t", nil)
		for i := range kv.DefaultPage + 50 {
			put(t, b, fmt.Sprintf("%04d", i), i)
		}
		page, next, err := b.Page(t.Context(), nil)
		check(t, err)
		if len(page) != kv.DefaultPage || next != page[len(page)-1].Key {
			t.Fatalf("the default page has %d entries, cursor %q", len(page), next)
		}
		page, next, err = b.Page(t.Context(), &kv.Query{After: next, Limit: 50})
		check(t, err)
		if len(page) != 50 || next != "" {
			t.Fatalf("the last page has %d entries, cursor %q: want 50 and none", len(page), next)
		}
	})
}

// The largest limit is one like any other: what is asked for beyond it does not overflow.
func TestLargestLimit(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[string](t, log, "t", nil)
		for i := range 3 {
			put(t, b, fmt.Sprint("k", i), "v")
		}
		for _, q := range []kv.Query{{Limit: math.MaxInt}, {Limit: math.MaxInt - 1}, {Limit: math.MaxInt, Offset: 1}, {Limit: 5, Offset: math.MaxInt}} {
			entries, next, err := b.Page(t.Context(), &q)
			if want := max(0, 3-q.Offset); err != nil || len(entries) != want || next != "" {
				t.Errorf("page of %+v: %d entries, next %q, %v: want %d", q, len(entries), next, err, want)
			}
			if n, err := b.Count(t.Context(), &q); err != nil || n != int64(max(0, 3-q.Offset)) {
				t.Errorf("count of %+v: %d, %v", q, n, err)
			}
		}
	})
}
