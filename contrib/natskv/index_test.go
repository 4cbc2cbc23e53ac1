package natskv

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/kv"
)

// The sorted list says what a map says.
func TestSortedIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s sorted
		model := make(map[string]uint64)
		key := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, 3000).Draw(t, "key")) })
		if rapid.Bool().Draw(t, "many") { // so that blocks split
			for i := range 2000 {
				k := fmt.Sprint(i * 7 % 3001)
				s.insert(k).seq, model[k] = uint64(i), uint64(i)
			}
		}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			k := key.Draw(t, "k")
			if rapid.Bool().Draw(t, "remove") {
				s.remove(k)
				delete(model, k)
				continue
			}
			n := rapid.Uint64().Draw(t, "n")
			i := s.get(k)
			if i == nil {
				i = s.insert(k)
			}
			i.seq, model[k] = n, n
		}
		checkSorted(t, &s, model, key.Draw(t, "from"))
	})
}

func checkSorted(t *rapid.T, s *sorted, model map[string]uint64, from string) {
	want := slices.Sorted(maps.Keys(model))
	var up, down []string
	s.up("", func(i *item) bool { up = append(up, i.key); return true })
	s.down("", true, func(i *item) bool { down = append(down, i.key); return true })
	slices.Reverse(down)
	if !slices.Equal(up, want) || !slices.Equal(down, want) || s.n != len(want) {
		t.Fatalf("%d items up, %d down, n %d; want %d", len(up), len(down), s.n, len(want))
	}
	for k, n := range model {
		if i := s.get(k); i == nil || i.seq != n || i.key != k {
			t.Fatalf("get %s is %+v; want %d", k, i, n)
		}
	}
	at, _ := slices.BinarySearch(want, from)
	up, down = nil, nil
	s.up(from, func(i *item) bool { up = append(up, i.key); return true })
	s.down(from, false, func(i *item) bool { down = append(down, i.key); return true })
	slices.Reverse(down)
	if !slices.Equal(up, want[at:]) || !slices.Equal(down, want[:at]) {
		t.Fatalf("from %s: %d up and %d down; want %d and %d", from, len(up), len(down), len(want)-at, at)
	}
	for _, b := range s.blocks {
		if len(b) == 0 || len(b) > maxBlock {
			t.Fatalf("a block of %d", len(b))
		}
	}
}

// Two buckets of one name, the second made after the first was deleted.
var bucketA, bucketB = &facts{created: time.Unix(1, 0)}, &facts{created: time.Unix(2, 0)}

// testIndex returns an index of bucketA that is ready, without a server.
func testIndex(cacheBytes int64) *index {
	s := &Store{
		layout: GoMicro(false), cacheBytes: cacheBytes, indexKeys: 1 << 20, maxStale: time.Hour, auditEvery: time.Hour,
		clock: newClock(),
	}
	st := newStream(s, "b")
	st.index.state, st.index.bucket, st.index.audited = indexReady, bucketA.created, time.Now()
	st.index.alive(0)
	return st.index
}

// Whatever is told, in whatever order and how often, the index shows the
// newest of each key; and every query is what filtering a sorted list of all keys gives.
func TestIndexShowsTheNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := testIndex(0)
		type state struct {
			seq  uint64
			live bool
		}
		model := make(map[string]state)
		names := rapid.SampledFrom([]string{"t_a", "t_ab", "t_b", "t_ba", "t_x_c", "t_", "u_a", "v", "a", "t_zz"})
		ops := rapid.SampledFrom([]kv.Op{kv.OpUpdate, kv.OpUpdate, kv.OpDelete, kv.OpPurge, kv.OpExpire})
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			k, seq, op := names.Draw(t, "key"), rapid.Uint64Range(1, 50).Draw(t, "seq"), ops.Draw(t, "op")
			x.tell(bucketA, k, delivery{seq: seq, time: 1}, op, 0)
			if model[k].seq <= seq {
				model[k] = state{seq, op == kv.OpUpdate}
			}
		}
		prefix := rapid.SampledFrom([]string{"", "t_", "t_x_", "w_"}).Draw(t, "table")
		part := rapid.SampledFrom([]string{"", "a", "b", "x", "x_", "zz", "c"})
		q := &kv.Query{
			Prefix: part.Draw(t, "prefix"), Suffix: part.Draw(t, "suffix"), Start: part.Draw(t, "start"), End: part.Draw(t, "end"),
			After: part.Draw(t, "after"), Reverse: rapid.Bool().Draw(t, "reverse"),
			Offset: rapid.IntRange(0, 3).Draw(t, "offset"), Limit: rapid.IntRange(0, 4).Draw(t, "limit"),
		}
		var all []string
		for full, s := range model {
			if k, ok := strings.CutPrefix(full, prefix); ok && k != "" && s.live {
				all = append(all, k)
			}
		}
		want := selectKeys(all, q)
		found, ok := x.collect(prefix, q)
		if !ok {
			t.Fatal("the index is not ready")
		}
		var got []string
		for _, f := range found {
			got = append(got, f.key)
			if f.seq != model[prefix+f.key].seq {
				t.Fatalf("%s is at %d; want %d", f.key, f.seq, model[prefix+f.key].seq)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v of %q in table %q: %q; want %q", *q, all, prefix, got, want)
		}
	})
}

// selectKeys is what a query means.
func selectKeys(all []string, q *kv.Query) []string {
	slices.Sort(all)
	if q.Reverse {
		slices.Reverse(all)
	}
	var out []string
	for _, k := range all {
		after := q.After == "" || !q.Reverse && k > q.After || q.Reverse && k < q.After
		if strings.HasPrefix(k, q.Prefix) && strings.HasSuffix(k, q.Suffix) && k >= q.Start && (q.End == "" || k < q.End) && after {
			out = append(out, k)
		}
	}
	out = out[min(q.Offset, len(out)):]
	if q.Limit > 0 {
		out = out[:min(q.Limit, len(out))]
	}
	return out
}

// The cache never shows what is not the newest known, stays in its bounds, and its
// books agree.
func TestCacheIsCoherent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 3 * (itemOverhead + 10)
		x := testIndex(limit)
		newest := make(map[string]uint64)
		live := make(map[string]bool)
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			k := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "key")
			seq := rapid.Uint64Range(1, 40).Draw(t, "seq")
			size := rapid.SampledFrom([]int{0, 5, 10, limit}).Draw(t, "size")
			op := kv.OpUpdate
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				x.note(bucketA, k, &message{seq: seq, data: make([]byte, size)}, op, rapid.Bool().Draw(t, "exact"))
			case 1:
				op = kv.OpDelete
				x.tell(bucketA, k, delivery{seq: seq}, op, 0)
			case 2:
				x.tell(bucketA, k, delivery{seq: seq}, op, 0)
			case 3:
				if m, ok := x.peek(k); ok && m.seq != 0 && (m.seq != newest[k] || !live[k]) || ok && m.seq == 0 && live[k] {
					t.Fatalf("%s is shown at %d; the newest is %d, live %v", k, m.seq, newest[k], live[k])
				}
				continue
			}
			if newest[k] < seq || newest[k] == seq && op == kv.OpDelete {
				newest[k], live[k] = seq, op == kv.OpUpdate
			} else if newest[k] == seq {
				live[k] = x.keys.get(k).live // two kinds of message with one sequence do not exist
			}
			checkCache(t, &x.cache)
		}
	})
}

func checkCache(t *rapid.T, c *cache) {
	sum := int64(0)
	for i, v := range c.ring {
		if v.slot != i || v.message == nil {
			t.Fatalf("slot %d holds %+v", i, v)
		}
		sum += cost(v.message)
	}
	if sum != c.bytes || sum > c.limit {
		t.Fatalf("the cache counts %d bytes of %d, and has %d", c.bytes, c.limit, sum)
	}
}

// What expires is gone by the server's clock, and a time to live without end
// outlives the bucket's limit.
func TestIndexExpires(t *testing.T) {
	x := testIndex(0)
	x.stream.known.Store(&facts{maxAge: 100})
	now := x.stream.store.clock.now()
	const long = int64(1e12)
	for _, c := range []struct {
		key  string
		age  int64
		ttl  int64
		want bool
	}{
		{"young", 10 - long, 0, true}, // ahead of the clock, so that the test takes its time
		{"old", 101, 0, false},
		{"forever", 101, int64(forEver), true},
		{"short", 60, 50, false},
		{"longer", 101, 200, false},
	} {
		x.tell(bucketA, c.key, delivery{seq: 1, time: now - c.age}, kv.OpUpdate, time.Duration(c.ttl))
		found, ok := x.collect("", &kv.Query{Prefix: c.key})
		if got := len(found) == 1; !ok || got != c.want {
			t.Errorf("%s is listed: %v; want %v", c.key, got, c.want)
		}
	}
}

// An index that begins anew has no list, also if it was ready just before, until it has been
// told of everything.
func TestIndexThatBeginsAnewHasNoList(t *testing.T) {
	x := testIndex(0)
	list := func() string {
		keys, ok := x.collect("", &kv.Query{})
		return fmt.Sprint(len(keys), " ", ok)
	}
	steps := []struct {
		name string
		do   func() error
		want string
	}{
		{"ready", func() error { return nil }, "2 true"},
		{"begun anew", func() error { return x.restart(bucketA) }, "0 false"},
		{"half loaded", func() error { x.tell(bucketA, "a", delivery{seq: 1}, kv.OpUpdate, 0); return nil }, "0 false"},
		{"loaded", func() error { x.tell(bucketA, "b", delivery{seq: 2}, kv.OpUpdate, 0); return x.synced() }, "2 true"},
		{"stale", func() error { x.fresh = time.Now().Add(-2 * time.Hour); return nil }, "0 false"},
	}
	x.tell(bucketA, "a", delivery{seq: 1}, kv.OpUpdate, 0)
	x.tell(bucketA, "b", delivery{seq: 2}, kv.OpUpdate, 0)
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatal(err)
		}
		if got := list(); got != s.want {
			t.Errorf("%s: the index lists %s; want %s", s.name, got, s.want)
		}
	}
}

// What was asked for when the bucket was another one is not taken in. The index begins anew,
// and has no list before: the answer may have come from either bucket.
func TestIndexIsOfOneBucket(t *testing.T) {
	old, now := message{seq: 900}, message{seq: 1}
	for name, answer := range map[string]func(x *index){
		"read or written": func(x *index) { x.note(bucketA, "k", &old, kv.OpUpdate, true) },
		"seen":            func(x *index) { x.tell(bucketA, "k", delivery{seq: 900}, kv.OpUpdate, 0) },
		"absent":          func(x *index) { x.gone(bucketA, "k", 1) },
	} {
		x := testIndex(1 << 20)
		x.stream.store.mu.closed = true // no lookups
		x.feed = newFeed(x.stream)
		begin := func() string {
			x.restart(bucketB)
			x.note(bucketB, "k", &now, kv.OpUpdate, true)
			x.synced()
			keys, ok := x.collect("", &kv.Query{})
			return fmt.Sprint(keys, ok)
		}
		want := fmt.Sprint([]found{{key: "k", seq: 1, time: now.time.UnixNano()}}, true)
		x.note(bucketA, "k", &old, kv.OpUpdate, true)
		if got := begin(); got != want {
			t.Errorf("%s: the index of the new bucket has %s; want %s", name, got, want)
		}
		answer(x)
		x.synced() // by the feed, which has not begun anew yet
		if keys, ok := x.collect("", &kv.Query{}); ok || !x.feed.anew.Load() {
			t.Errorf("%s: the index lists %v, %v, and begins anew: %v; want that it does before it lists", name, keys, ok, x.feed.anew.Load())
		}
		answer(x) // also while it begins
		if got := begin(); got != want {
			t.Errorf("%s: the index that has begun anew has %s; want %s", name, got, want)
		}
		if !x.passed(bucketA) || x.passed(bucketB) {
			t.Errorf("%s: what watches tell of the old bucket is of interest, or that of the new one is not", name)
		}
	}
}
