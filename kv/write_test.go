package kv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/kv"
)

func TestUpdateComparesRevisions(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[string](t, log, "t", nil)
		put(t, b, "k", "one")
		put(t, b, "k", "two")

		_, err := b.Update(ctx, "k", "stale", 1)
		if e := wantErr(t, err, mainstem.ErrConflict); e.Want.Version != 1 || e.Got != 2 || !e.GotLive || e.Outcome != mainstem.NotWritten {
			t.Fatalf("conflict %+v: want 1, got 2", e)
		}
		_, err = b.Update(ctx, "k", "future", 3)
		wantErr(t, err, mainstem.ErrConflict)
		if rev := must[kv.Revision](t)(b.Update(ctx, "k", "three", 2)); rev != 3 {
			t.Fatalf("revision %d", rev)
		}
		_, err = b.Update(ctx, "k", "x", 0)
		wantErr(t, err, mainstem.ErrConflict)

		check(t, b.Delete(ctx, "k")) // the tombstone is revision 4
		for rev := range kv.Revision(6) {
			if _, err := b.Update(ctx, "k", "x", rev+1); !errors.Is(err, mainstem.ErrConflict) {
				t.Fatalf("Update of a deleted key at revision %d: %v: want Conflict", rev+1, err)
			}
		}
		if rev := must[kv.Revision](t)(b.Update(ctx, "k", "again", 0)); rev != 5 {
			t.Fatalf("revision %d after deletion: want 5, revisions never repeat", rev)
		}
		_, err = b.Update(ctx, "never", "x", 1)
		if e := wantErr(t, err, mainstem.ErrConflict); e.Got != 0 {
			t.Fatalf("conflict %+v: got 0", e)
		}
	})
}

func TestUpdateOfAMissingTableCreatesNothing(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[string](t, log, "t", nil)
		_, err := b.Update(t.Context(), "k", "v", 3)
		wantErr(t, err, mainstem.ErrConflict)
		if got := spaces(t, log); len(got) != 0 {
			t.Fatalf("a refused write created %q", got)
		}
	})
}

func TestCreate(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[string](t, log, "t", nil)
		if rev := must[kv.Revision](t)(b.Create(ctx, "k", "one")); rev != 1 {
			t.Fatalf("revision %d", rev)
		}
		_, err := b.Create(ctx, "k", "two")
		if e := wantErr(t, err, mainstem.ErrExists); e.Got != 1 || !e.GotLive || e.Outcome != mainstem.NotWritten || string(e.Key) != "k" {
			t.Fatalf("error %+v does not carry the revision", e)
		}
		if !strings.Contains(err.Error(), "revision 1") {
			t.Fatalf("error %q does not name the revision", err)
		}
		check(t, b.Delete(ctx, "k"))
		if rev := must[kv.Revision](t)(b.Create(ctx, "k", "three", kv.Metadata(map[string]string{"m": "x"}))); rev != 3 {
			t.Fatalf("revision %d", rev)
		}
		e := must[kv.Entry[string]](t)(b.Get(ctx, "k"))
		if e.Op != kv.OpCreate || e.Value != "three" || len(e.Metadata) != 1 || e.Metadata["m"] != "x" {
			t.Fatalf("entry %+v", e)
		}
	})
}

func TestConditionsOfDelete(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[string](t, log, "t", nil)
		wantErr(t, b.Delete(ctx, "k", kv.IfExists()), mainstem.ErrConflict)
		put(t, b, "k", "one")
		put(t, b, "k", "two")
		wantErr(t, b.Delete(ctx, "k", kv.IfRevision(1)), mainstem.ErrConflict)
		wantErr(t, b.Purge(ctx, "k", kv.IfAbsent()), mainstem.ErrConflict)
		check(t, b.Delete(ctx, "k", kv.IfRevision(2)))
		_, err := b.Get(ctx, "k")
		wantErr(t, err, mainstem.ErrNotFound)
		wantErr(t, b.Delete(ctx, "k", kv.IfExists()), mainstem.ErrConflict)
	})
}

func TestOneOfManyWritersWins(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[int](t, log, "t", nil)
		for round := range 20 {
			key := fmt.Sprint(round)
			created := race(16, func(i int) error { _, err := b.Create(t.Context(), key, i); return err })
			updated := race(16, func(i int) error { _, err := b.Update(t.Context(), key, i, 1); return err })
			for what, errs := range map[error][]error{mainstem.ErrExists: created, mainstem.ErrConflict: updated} {
				won := 0
				for _, err := range errs {
					if err == nil {
						won++
					} else {
						wantErr(t, err, what)
					}
				}
				if won != 1 {
					t.Fatalf("%d writers won: want 1 (the others %v)", won, what)
				}
			}
		}
	})
}

// race runs f in n goroutines and returns what each returned.
func race(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errs
}

func TestIncrement(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[int64](t, log, "t", nil)
		for i, step := range []struct{ delta, want int64 }{{1, 1}, {41, 42}, {-50, -8}, {0, -8}} {
			if got := must[int64](t)(kv.Increment(ctx, b, "n", step.delta)); got != step.want {
				t.Fatalf("step %d: %d, want %d", i, got, step.want)
			}
		}
		const writers, each = 16, 25
		errs := race(writers, func(int) error {
			for range each {
				if _, err := kv.Increment(ctx, b, "hot", 1); err != nil {
					return err
				}
			}
			return nil
		})
		check(t, errors.Join(errs...))
		e := must[kv.Entry[int64]](t)(b.Get(ctx, "hot"))
		if e.Value != writers*each || e.Revision != writers*each {
			t.Fatalf("%d increments gave %d at revision %d", writers*each, e.Value, e.Revision)
		}
	})
}

func TestIncrementRefusesOverflow(t *testing.T) {
	log := modelLog(t)
	small := open[int8](t, log, "int8", nil)
	put(t, small, "max", 127)
	put(t, small, "min", -128)
	unsigned := open[uint8](t, log, "uint8", nil)
	put(t, unsigned, "max", 255)
	for name, err := range map[string]error{
		"127 + 1":     second(kv.Increment(t.Context(), small, "max", 1)),
		"127 + 127":   second(kv.Increment(t.Context(), small, "max", 127)),
		"-128 + -1":   second(kv.Increment(t.Context(), small, "min", -1)),
		"-128 + -128": second(kv.Increment(t.Context(), small, "min", -128)),
		"255 + 1":     second(kv.Increment(t.Context(), unsigned, "max", 1)),
		"255 + 255":   second(kv.Increment(t.Context(), unsigned, "max", 255)),
	} {
		if !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v: want Invalid", name, err)
		}
	}
	if got := must[int8](t)(kv.Increment(t.Context(), small, "max", -128)); got != -1 {
		t.Errorf("127 - 128 = %d", got)
	}
}

func second[A, B any](_ A, b B) B { return b }

func TestModify(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[[]string](t, log, "t", nil)
		add := func(s string) func([]string, bool) ([]string, error) {
			return func(old []string, found bool) ([]string, error) {
				if found != (len(old) > 0) {
					return nil, fmt.Errorf("found is %v for %q", found, old)
				}
				return append(old, s), nil
			}
		}
		e := must[kv.Entry[[]string]](t)(b.Modify(ctx, "k", add("a"), kv.Metadata(map[string]string{"m": "x"})))
		got := must[kv.Entry[[]string]](t)(b.Get(ctx, "k"))
		if e.Op != kv.OpCreate || e.Revision != 1 || e.Position != got.Position || !e.Modified.Equal(got.Modified) || e.Metadata["m"] != "x" {
			t.Fatalf("Modify returned %+v, Get %+v", e, got)
		}
		if e := must[kv.Entry[[]string]](t)(b.Modify(ctx, "k", add("b"))); e.Op != kv.OpUpdate || !slices.Equal(e.Value, []string{"a", "b"}) {
			t.Fatalf("second Modify returned %+v", e)
		}
		broken := errors.New("broken")
		if _, err := b.Modify(ctx, "k", func([]string, bool) ([]string, error) { return nil, broken }); err != broken {
			t.Fatalf("error %v: want that of the function", err)
		}
		tries := 0
		e = must[kv.Entry[[]string]](t)(b.Modify(ctx, "k", func(old []string, _ bool) ([]string, error) {
			if tries++; tries <= 6 { // another writer comes between, often enough to make Modify pause
				put(t, b, "k", append(old, "other"))
			}
			return append(old, "mine"), nil
		}))
		if tries != 7 || len(e.Value) != 9 || e.Value[8] != "mine" {
			t.Fatalf("after %d tries %q", tries, e.Value)
		}
		ctx, cancel := context.WithCancel(ctx)
		_, err := b.Modify(ctx, "k", func(old []string, _ bool) ([]string, error) {
			if tries++; tries == 20 {
				cancel()
			}
			put(t, b, "k", []string{"other"})
			return old, nil
		})
		wantErr(t, err, mainstem.ErrCanceled)
	})
}

func TestGetMany(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[string](t, log, "t", nil)
		put(t, b, "a", "1")
		put(t, b, "c", "3")
		put(t, b, "d", "4")
		check(t, b.Delete(ctx, "d"))
		got := must[[]kv.Entry[string]](t)(b.GetMany(ctx, "c", "b", "a", "d", "a"))
		var values []string
		for _, e := range got {
			values = append(values, fmt.Sprintf("%s=%s@%d %v", e.Key, e.Value, e.Revision, e.Live()))
		}
		if want := []string{"c=3@1 true", "b=@0 false", "a=1@1 true", "d=@0 false", "a=1@1 true"}; !slices.Equal(values, want) {
			t.Fatalf("GetMany gives %q, want %q", values, want)
		}
		if got := must[[]kv.Entry[string]](t)(b.GetMany(ctx)); len(got) != 0 {
			t.Fatalf("GetMany of no keys gives %v", got)
		}
		if got := must[[]kv.Entry[string]](t)(b.GetMany(ctx, "a")); len(got) != 1 || got[0].Value != "1" {
			t.Fatalf("GetMany of one key gives %v", got)
		}
	})
}

func TestGetManyShowsOneMoment(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		b := open[int](t, log, "t", nil)
		keys := []string{"a", "b", "c", "d"}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { // all keys hold the same number at every moment, or none is there
			for i := 0; ctx.Err() == nil; i++ {
				batch := mainstem.NewBatch()
				for _, k := range keys {
					if i%3 == 2 {
						b.DeleteTo(batch, k)
					} else {
						b.PutTo(batch, k, i)
					}
				}
				if _, err := log.Commit(t.Context(), batch); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for range 100 {
			got := must[[]kv.Entry[int]](t)(b.GetMany(t.Context(), keys...))
			for _, e := range got[1:] {
				if e.Value != got[0].Value || e.Live() != got[0].Live() {
					t.Errorf("two moments: %+v and %+v", got[0], e)
				}
			}
		}
		stop()
		wg.Wait()
	})
}

func TestPutMany(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[user](t, log, "t", nil)
		put(t, b, "b", user{})
		var pairs []kv.Pair[user]
		for _, k := range []string{"a", "b", "c", "a"} {
			pairs = append(pairs, kv.Pair[user]{Key: k, Value: user{k, len(pairs)}})
		}
		revs := must[[]kv.Revision](t)(b.PutMany(ctx, pairs))
		if !slices.Equal(revs, []kv.Revision{1, 2, 1, 2}) {
			t.Fatalf("revisions %v", revs)
		}
		for _, e := range collect(t, b.List(ctx, nil)) {
			want := pairs[slices.Index([]string{"", "b", "c", "a"}, e.Key)].Value
			if e.Value != want {
				t.Errorf("%s is %+v, want %+v", e.Key, e.Value, want)
			}
		}
		_, err := b.PutMany(ctx, []kv.Pair[user]{{Key: "new"}, {Key: "a"}}, kv.IfAbsent())
		wantErr(t, err, mainstem.ErrConflict)
		_, err = b.PutMany(ctx, []kv.Pair[user]{{Key: "new"}, {Key: ""}})
		wantErr(t, err, mainstem.ErrInvalid)
		if _, err := b.Get(ctx, "new"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Fatalf("PutMany wrote in part: %v", err)
		}
		if revs, err := b.PutMany(ctx, nil); err != nil || revs != nil {
			t.Fatalf("PutMany of nothing: %v, %v", revs, err)
		}
	})
}

func TestPutManyOverTheLimitIsRefusedWhole(t *testing.T) {
	log := model.New(&model.Options{Limits: mainstem.Limits{MaxBatchWrites: 10, MaxBatchBytes: 1000}})
	t.Cleanup(func() { check(t, log.Close()) })
	b := open[string](t, log, "t", nil)
	many := make([]kv.Pair[string], 11)
	large := make([]kv.Pair[string], 3)
	for i := range many {
		many[i].Key = fmt.Sprintf("%02d", i)
	}
	for i := range large {
		large[i] = kv.Pair[string]{Key: fmt.Sprint(i), Value: strings.Repeat("x", 400)}
	}
	for _, pairs := range [][]kv.Pair[string]{many, large} {
		_, err := b.PutMany(t.Context(), pairs)
		if e := wantErr(t, err, mainstem.ErrInvalid); !strings.Contains(e.Hint, "Import") || e.Outcome != mainstem.NotWritten {
			t.Fatalf("error %v does not say what to do", err)
		}
		if n := must[int64](t)(b.Count(t.Context(), nil)); n != 0 {
			t.Fatalf("%d keys written by a refused batch", n)
		}
		o := &kv.ImportOptions{ChunkPairs: 10, ChunkBytes: 500}
		if n, err := b.Import(t.Context(), slices.Values(pairs), o); err != nil || n != int64(len(pairs)) {
			t.Fatalf("Import: %d, %v", n, err)
		}
		if n := must[int64](t)(b.Count(t.Context(), nil)); n != int64(len(pairs)) {
			t.Fatalf("Import wrote %d of %d", n, len(pairs))
		}
		check(t, b.Drop(t.Context()))
	}
}

func TestImport(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[int](t, log, "t", nil)
		seq := func(n, bad int) func(func(kv.Pair[int]) bool) {
			return func(yield func(kv.Pair[int]) bool) {
				for i := range n {
					key := fmt.Sprintf("%05d", i)
					if i == bad {
						key = ""
					}
					if !yield(kv.Pair[int]{Key: key, Value: i}) {
						return
					}
				}
			}
		}
		if n, err := b.Import(ctx, seq(2345, -1), nil); err != nil || n != 2345 {
			t.Fatalf("Import: %d, %v", n, err)
		}
		i := 0
		for e, err := range b.List(ctx, nil) {
			if err != nil || e.Value != i || e.Key != fmt.Sprintf("%05d", i) {
				t.Fatalf("entry %d is %+v, %v", i, e, err)
			}
			i++
		}
		if i != 2345 {
			t.Fatalf("%d entries", i)
		}
		check(t, b.Drop(ctx))
		n, err := b.Import(ctx, seq(30, 25), &kv.ImportOptions{ChunkPairs: 10, Write: []kv.PutOption{kv.IfAbsent()}})
		wantErr(t, err, mainstem.ErrInvalid)
		if count := must[int64](t)(b.Count(ctx, nil)); n != 20 || count != 20 {
			t.Fatalf("Import says %d committed, %d are: want 20", n, count)
		}
		n, err = b.Import(ctx, seq(30, -1), &kv.ImportOptions{Write: []kv.PutOption{kv.IfAbsent()}})
		wantErr(t, err, mainstem.ErrConflict)
		if n != 0 {
			t.Fatalf("Import says %d committed", n)
		}
	})
}
