package model_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
)

var k = []byte("k")

func commit(t *testing.T, log *model.Log, fill func(b *mainstem.Batch)) mainstem.Receipt {
	t.Helper()
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{})
	b.Ensure("one", mainstem.Policy{History: 1})
	fill(b)
	r, err := log.Commit(t.Context(), b)
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	return r
}

func versions(t *testing.T, log *model.Log, space string, v mainstem.Versions) []mainstem.Version {
	t.Helper()
	var out []mainstem.Version
	for r, err := range log.Read(t.Context(), space, k, v) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r.Version)
	}
	return out
}

func TestFailedBatchLeavesNothing(t *testing.T) {
	log := model.New(nil)
	commit(t, log, func(b *mainstem.Batch) { b.Put("s", k, []byte("1")) })

	b := mainstem.NewBatch()
	b.ID = "id"
	b.Ensure("new", mainstem.Policy{})
	b.Put("new", k, nil)
	b.Put("s", k, []byte("2"))
	b.Delete("s", k)
	b.Rewrite("s", k, 1, []byte("x"), nil)
	b.Rewrite("s", k, 9, nil, nil) // no such record: the whole batch fails
	if _, err := log.Commit(t.Context(), b); !errors.Is(err, mainstem.ErrNotFound) {
		t.Fatalf("got %v, want NotFound", err)
	}
	if _, err := log.Space(t.Context(), "new"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("the failed batch created a space: %v", err)
	}
	if r, err := log.Get(t.Context(), "s", k); err != nil || string(r.Value) != "1" || r.Version != 1 {
		t.Errorf("got %+v, %v: want the value before the failed batch", r, err)
	}
	r := commit(t, log, func(b *mainstem.Batch) { b.ID = "id"; b.Put("s", k, nil) })
	if r.Duplicate || r.First != 2 || r.Versions[0] != 2 {
		t.Errorf("got receipt %+v: the failed batch took a position, a version or its ID", r)
	}
	if n := count(log.Feed(t.Context(), mainstem.Filter{})); n != 2 {
		t.Errorf("the feed has %d records, want 2", n)
	}
}

func TestNewestIsNeverAnOlderValue(t *testing.T) {
	for name, op := range map[string]mainstem.Write{
		"truncate": {Op: mainstem.OpTruncate, Version: 3},
		"remove":   {Op: mainstem.OpRemove, Version: 2},
		"forget":   {Op: mainstem.OpForget},
	} {
		t.Run(name, func(t *testing.T) {
			log := model.New(nil)
			commit(t, log, func(b *mainstem.Batch) { b.Put("s", k, nil); b.Put("s", k, nil) })
			op.Space, op.Key = "s", k
			if r := commit(t, log, func(b *mainstem.Batch) { b.Add(op) }); r.First != 0 || r.Versions[0] != 0 {
				t.Errorf("got %+v, want a receipt without records", r)
			}
			if _, err := log.Get(t.Context(), "s", k); !errors.Is(err, mainstem.ErrNotFound) {
				t.Errorf("Get: %v, want NotFound", err)
			}
			r := commit(t, log, func(b *mainstem.Batch) {
				b.IfVersion("s", k, 2)
				b.IfAbsent("s", k)
				b.Put("s", k, nil)
			})
			if r.Versions[0] != 3 {
				t.Errorf("the next version is %d, want 3", r.Versions[0])
			}
		})
	}
}

func TestSweepTellsFollowersOfExpiry(t *testing.T) {
	now := time.Unix(1000, 0)
	log := model.New(&model.Options{Now: func() time.Time { return now }})
	commit(t, log, func(b *mainstem.Batch) {
		b.Ensure("quiet", mainstem.Policy{History: 1, NoFeed: true})
		for _, s := range []string{"one", "quiet"} {
			b.Add(mainstem.Write{Space: s, Key: k, TTL: time.Minute})
		}
	})
	now = now.Add(time.Minute)
	if _, err := log.Get(t.Context(), "one", k); !errors.Is(err, mainstem.ErrNotFound) {
		t.Fatalf("an expired record: %v, want NotFound", err)
	}
	if err := log.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []mainstem.Record
	for r := range log.Feed(t.Context(), mainstem.Filter{}) {
		got = append(got, r)
	}
	if len(got) != 1 || got[0].Tombstone != mainstem.Expired || got[0].Version != 2 {
		t.Errorf("the feed has %+v, want one Expired tombstone of version 2", got)
	}
	now = now.Add(mainstem.DefaultTombstoneAge + 1)
	if err := log.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(log.Feed(t.Context(), mainstem.Filter{})); n != 0 {
		t.Errorf("%d records left after the tombstone's age", n)
	}
	r := commit(t, log, func(b *mainstem.Batch) { b.Put("one", k, nil); b.Put("quiet", k, nil) })
	if !slices.Equal(r.Versions, []mainstem.Version{3, 2}) {
		t.Errorf("versions go on with %v, want [3 2]", r.Versions)
	}
}

func TestMaxBytesDropsOldest(t *testing.T) {
	log := model.New(nil)
	commit(t, log, func(b *mainstem.Batch) {
		b.Ensure("small", mainstem.Policy{MaxBytes: 4})
		for range 5 {
			b.Put("small", k, []byte("v"))
		}
	})
	if err := log.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := versions(t, log, "small", mainstem.Versions{}); !slices.Equal(got, []mainstem.Version{4, 5}) {
		t.Errorf("versions %v are left, want [4 5]", got)
	}
}

func TestFollowReadPastWhatIsGone(t *testing.T) {
	log := model.New(nil)
	commit(t, log, func(b *mainstem.Batch) { b.Put("s", k, nil) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []mainstem.Version
	var last error
	for r, err := range log.Read(ctx, "s", k, mainstem.Versions{Follow: true}) {
		if last = err; err != nil {
			break
		}
		switch got = append(got, r.Version); len(got) {
		case 1:
			commit(t, log, func(b *mainstem.Batch) {
				b.Add(mainstem.Write{Space: "s", Key: k, Count: 3})
				b.Add(mainstem.Write{Op: mainstem.OpForget, Space: "s", Key: k})
				b.Put("s", k, nil)
			})
		case 2:
			cancel()
		}
	}
	if !slices.Equal(got, []mainstem.Version{1, 5}) || !errors.Is(last, mainstem.ErrCanceled) || !errors.Is(last, context.Canceled) {
		t.Errorf("followed %v until %v, want [1 5] until canceled", got, last)
	}
}

func TestCheckFindsNothing(t *testing.T) {
	log := model.New(nil)
	commit(t, log, func(b *mainstem.Batch) { b.Put("s", k, k); b.Put("one", k, k); b.Put("one", k, k) })
	st, err := log.Check(t.Context(), func(p mainstem.Problem) { t.Errorf("%s: %s", p.Where, p.What) })
	if want := (mainstem.CheckStats{Spaces: 2, Keys: 2, Records: 2, Bytes: 4}); err != nil || st != want {
		t.Errorf("got %+v, %v, want %+v", st, err, want)
	}
}

func count[V any](seq func(func(V, error) bool)) (n int) {
	for range seq {
		n++
	}
	return n
}
