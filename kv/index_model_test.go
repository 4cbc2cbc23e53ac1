package kv_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/crashtest"
	"github.com/mainstemdev/mainstem/kv"
)

// indexProgram runs random calls on a table with indexes and on a map, and compares.
type indexProgram struct {
	t     *testing.T
	log   mainstem.Log
	x     *kv.Indexed[member]
	cells map[string]member
}

var (
	someKey    = rapid.SampledFrom([]string{"a", "a\x00", "b", "c", "\xff"})
	someMember = rapid.Custom(func(t *rapid.T) member {
		return member{
			Email: rapid.SampledFrom([]string{"", "e", "f", "g", "h"}).Draw(t, "email"),
			City:  rapid.SampledFrom([]string{"", "x", "x\x00", "xy"}).Draw(t, "city"),
			Age:   rapid.IntRange(-1, 1).Draw(t, "age"),
		}
	})
)

func TestRandomProgramsOnIndexesAgainstAMap(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		round := 0
		rapid.Check(t, func(rt *rapid.T) {
			round++
			p := &indexProgram{t: t, log: log, cells: map[string]member{}, x: openIndexed(t, log, fmt.Sprintf("t%d", round), nil, byEmail, byCity)}
			rt.Repeat(map[string]func(*rapid.T){
				"compare":  p.compare,
				"put":      p.put,
				"create":   p.create,
				"delete":   p.delete,
				"modify":   p.modify,
				"batch":    p.batch,
				"put many": p.putMany,
				"rebuild":  p.rebuild,
			})
			p.compare(rt)
			consistent(t, p.x)
			if err := p.x.Drop(t.Context()); err != nil && !errors.Is(err, mainstem.ErrNotFound) {
				t.Fatal(err)
			}
		})
	})
}

// holder returns the other key that has m's email in cells.
func holder(cells map[string]member, key string, m member) (string, bool) {
	for k, c := range cells {
		if k != key && m.Email != "" && c.Email == m.Email {
			return k, true
		}
	}
	return "", false
}

// expect checks the outcome of a write of m to key, and does it in cells.
func expect(t *rapid.T, cells map[string]member, key string, m member, err error) bool {
	var u *kv.UniqueError
	h, held := holder(cells, key, m)
	if errors.As(err, &u) != held || held && u.HeldBy != h {
		t.Fatalf("%q %+v: %v, want it held by %q: %v", key, m, err, h, held)
	}
	if err != nil && !held {
		t.Fatal(err)
	}
	if !held {
		cells[key] = m
	}
	return !held
}

func (p *indexProgram) put(t *rapid.T) {
	key, m := someKey.Draw(t, "key"), someMember.Draw(t, "value")
	_, err := p.x.Put(p.t.Context(), key, m)
	expect(t, p.cells, key, m, err)
}

func (p *indexProgram) create(t *rapid.T) {
	key, m := someKey.Draw(t, "key"), someMember.Draw(t, "value")
	_, there := p.cells[key]
	_, err := p.x.Create(p.t.Context(), key, m)
	if there {
		if !errors.Is(err, mainstem.ErrExists) {
			t.Fatalf("a second create: %v", err)
		}
		return
	}
	expect(t, p.cells, key, m, err)
}

func (p *indexProgram) delete(t *rapid.T) {
	key := someKey.Draw(t, "key")
	if err := p.x.Delete(p.t.Context(), key); err != nil {
		t.Fatal(err)
	}
	delete(p.cells, key)
}

func (p *indexProgram) modify(t *rapid.T) {
	key, city := someKey.Draw(t, "key"), someMember.Draw(t, "value").City
	want := p.cells[key]
	want.City = city
	_, err := p.x.Modify(p.t.Context(), key, func(m member, _ bool) (member, error) { m.City = city; return m, nil })
	expect(t, p.cells, key, want, err)
}

// batch is several writes, of which later ones see those before.
func (p *indexProgram) batch(t *rapid.T) {
	b, cells := mainstem.NewBatch(), maps.Clone(p.cells)
	good := true
	for range rapid.IntRange(1, 5).Draw(t, "writes") {
		key := someKey.Draw(t, "key")
		if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
			if err := p.x.DeleteTo(p.t.Context(), b, key); err != nil {
				t.Fatal(err)
			}
			delete(cells, key)
			continue
		}
		m := someMember.Draw(t, "value")
		if good = expect(t, cells, key, m, p.x.PutTo(p.t.Context(), b, key, m)); !good {
			break
		}
	}
	_, err := p.log.Commit(p.t.Context(), b)
	if good != (err == nil) {
		t.Fatalf("the commit: %v", err)
	}
	if good {
		p.cells = cells
	}
}

func (p *indexProgram) putMany(t *rapid.T) {
	cells, good := maps.Clone(p.cells), true
	var pairs []kv.Pair[member]
	for range rapid.IntRange(1, 4).Draw(t, "pairs") {
		key, m := someKey.Draw(t, "key"), someMember.Draw(t, "value")
		pairs = append(pairs, kv.Pair[member]{Key: key, Value: m})
		if _, held := holder(cells, key, m); held {
			good = false
		}
		if good {
			cells[key] = m
		}
	}
	_, err := p.x.PutMany(p.t.Context(), pairs)
	if good != (err == nil) || !good && !errors.Is(err, mainstem.ErrExists) {
		t.Fatalf("%+v: %v", pairs, err)
	}
	if good {
		p.cells = cells
	}
}

func (p *indexProgram) rebuild(t *rapid.T) {
	if len(p.cells) == 0 {
		return // it may not be declared
	}
	if err := p.x.Rebuild(p.t.Context(), rapid.SampledFrom([]string{"email", "city"}).Draw(t, "index")); err != nil {
		t.Fatal(err)
	}
}

func (p *indexProgram) compare(t *rapid.T) {
	keys := slices.Sorted(maps.Keys(p.cells))
	var emails, cities []string
	for _, k := range keys {
		if p.cells[k].Email != "" {
			emails = append(emails, k)
		}
		cities = append(cities, k)
	}
	slices.SortStableFunc(emails, func(a, b string) int { return strings.Compare(p.cells[a].Email, p.cells[b].Email) })
	slices.SortStableFunc(cities, func(a, b string) int {
		if c := strings.Compare(p.cells[a].City, p.cells[b].City); c != 0 {
			return c
		}
		return p.cells[a].Age - p.cells[b].Age
	})
	for index, want := range map[string][]string{"email": emails, "city": cities} {
		got := found(p.t, p.x, index, nil)
		if got != strings.Join(want, " ") {
			t.Fatalf("%s: %q, want %q", index, got, want)
		}
	}
}

// Many writers that want the same unique values, and builds and rebuilds at the same time, leave exactly
// the entries of the values.
func TestConcurrentWritersKeepIndexes(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		plain := open[member](t, log, "app/members", nil)
		for i := range 20 {
			put(t, plain, fmt.Sprint("old", i), member{Email: fmt.Sprint("old", i), City: "x"})
		}
		var group sync.WaitGroup
		var taken, refused atomic.Int64
		for w := range 6 {
			x := members(t, log) // a program of its own
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			group.Go(func() {
				for range 25 {
					key, m := fmt.Sprint(rng.IntN(6)), member{fmt.Sprint(rng.IntN(4)), fmt.Sprint(rng.IntN(2)), rng.IntN(2)}
					var err error
					switch rng.IntN(8) {
					case 0:
						err = x.Delete(ctx, key)
					case 1:
						_, err = x.Modify(ctx, key, func(member, bool) (member, error) { return m, nil })
					default:
						_, err = x.Put(ctx, key, m)
					}
					var u *kv.UniqueError
					switch {
					case err == nil:
						taken.Add(1)
					case errors.As(err, &u):
						refused.Add(1)
					default:
						t.Errorf("writer %d: %v", w, err)
					}
				}
			})
		}
		for range 2 {
			group.Go(func() {
				x := members(t, log)
				if err := x.Build(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		group.Go(func() {
			x := members(t, log)
			if err := errors.Join(x.Build(ctx), x.Rebuild(ctx, "city"), x.Rebuild(ctx, "email")); err != nil {
				t.Error(err)
			}
		})
		group.Wait()
		x := members(t, log)
		consistent(t, x)
		seen := map[string]string{}
		for e, err := range x.List(ctx, nil) {
			check(t, err)
			if other := seen[e.Value.Email]; other != "" {
				t.Errorf("%s and %s have %s", other, e.Key, e.Value.Email)
			}
			seen[e.Value.Email] = e.Key
		}
		if taken.Load() == 0 || refused.Load() == 0 {
			t.Errorf("%d writes, %d refused: want some of both", taken.Load(), refused.Load())
		}
	})
}

// Of many writers that want one value at the same moment, one gets it.
func TestOneOfManyGetsAUniqueValue(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx, x := t.Context(), members(t, log)
		set(t, x, "first", member{Email: "first"})
		for round := range 5 {
			var group sync.WaitGroup
			var won atomic.Int64
			for w := range 8 {
				group.Go(func() {
					_, err := x.Put(ctx, fmt.Sprint(round, "-", w), member{Email: fmt.Sprint("wanted", round)})
					if err == nil {
						won.Add(1)
					} else if u := (*kv.UniqueError)(nil); !errors.As(err, &u) {
						t.Error(err)
					}
				})
			}
			group.Wait()
			if won.Load() != 1 {
				t.Errorf("%d writers got the value", won.Load())
			}
		}
		consistent(t, x)
	})
}

// A build that is cut off goes on where it was: also while others write.
func TestABuildGoesOnWhereItEnded(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		plain := open[member](t, log, "app/members", nil)
		var pairs []kv.Pair[member]
		for i := range 600 {
			pairs = append(pairs, kv.Pair[member]{Key: fmt.Sprintf("%03d", i), Value: member{Email: fmt.Sprint(i), City: "x"}})
		}
		must[[]kv.Revision](t)(plain.PutMany(ctx, pairs))
		cut := &between{Log: log}
		x := openIndexed(t, mainstem.Log(cut), "app/members", nil, byEmail)
		short, cancel := context.WithCancel(ctx)
		scans := 0
		var again func()
		again = func() {
			scans++
			if scans == 3 { // the first looks whether the table is empty
				cancel()
			}
			cut.scan = again
		}
		cut.scan = again
		if err := x.Build(short); !errors.Is(err, mainstem.ErrCanceled) {
			t.Fatalf("a build that is cut off: %v", err)
		}
		cut.scan = nil
		infos := must[[]kv.IndexInfo](t)(kv.Indexes(ctx, log, "app", "members"))
		if infos[0].Done == 0 || infos[0].Done >= 600 || infos[0].Total != 600 {
			t.Fatalf("after it was cut off: %+v", infos[0])
		}
		fresh := openIndexed(t, log, "app/members", nil, byEmail)
		set(t, fresh, "000", member{Email: "zero"})
		set(t, fresh, "599", member{Email: "last"})
		check(t, fresh.Delete(ctx, "300"))
		check(t, fresh.Build(ctx))
		if n := must[int64](t)(fresh.By("email").Count(ctx, nil)); n != 599 {
			t.Errorf("%d entries, want 599", n)
		}
		consistent(t, fresh)
	})
}

// A power cut keeps values and entries together, also during a build.
func TestPowerCutsKeepEntriesWithValues(t *testing.T) {
	const dir = "/data"
	options := func(fs vfs.FS) *pebblelog.Options {
		return &pebblelog.Options{FS: fs, MinFree: -1, MemTableBytes: 64 << 10}
	}
	disk := vfs.NewCrashableMem()
	rng, cutting := rand.New(rand.NewPCG(3, 4)), rand.New(rand.NewPCG(5, 6)) // cutting is used under mu
	cuts, begun, values := 0, false, 0
	var mu sync.Mutex
	look := func(n int, _ string) {
		mu.Lock()
		defer mu.Unlock()
		if !begun || n%9 != 0 {
			return
		}
		cuts++
		after := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: cutting})
		log, err := pebblelog.Open(dir, options(after))
		if err != nil {
			t.Errorf("cut %d: %v", n, err)
			return
		}
		defer log.Close()
		x := members(t, log)
		consistent(t, x) // of the indexes that are ready
		if err := x.Build(context.Background()); err != nil {
			t.Errorf("cut %d: %v", n, err)
		}
		consistent(t, x)
		n64, err := x.By("city").Count(context.Background(), nil)
		if err != nil {
			t.Errorf("cut %d: %v", n, err)
		}
		values = max(values, int(n64))
	}
	fs := &crashtest.CutFS{FS: disk, Before: look}
	log := must[*pebblelog.Log](t)(pebblelog.Open(dir, options(fs)))
	plain := open[member](t, log, "app/members", nil)
	for i := range 8 {
		put(t, plain, fmt.Sprint("old", i), member{Email: fmt.Sprint("old", i), City: "x"})
	}
	fs.Do(func(int) { mu.Lock(); begun = true; mu.Unlock() })
	x := members(t, log)
	check(t, x.Build(t.Context()))
	for i := range 40 {
		key, m := fmt.Sprint(rng.IntN(5)), member{fmt.Sprint(i % 7), fmt.Sprint(rng.IntN(2)), i}
		if i%5 == 4 {
			check(t, x.Delete(t.Context(), key))
			continue
		}
		if _, err := x.Put(t.Context(), key, m); err != nil && !errors.Is(err, mainstem.ErrExists) {
			t.Fatal(err)
		}
	}
	check(t, x.Rebuild(t.Context(), "city"))
	check(t, log.Close())
	if cuts < 10 || values < 8 {
		t.Errorf("%d power cuts, at most %d values: the test looks at too little", cuts, values)
	}
}
