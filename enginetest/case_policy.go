package enginetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
)

// shortly is a time to live in the cases on expiry. It is long enough for a
// busy machine to look at a record before it expires in real time.
const shortly = 400 * time.Millisecond

var policyCases = []testCase{
	{name: "history", run: historyCountsRecords,
		promise: "A bounded history keeps that many of the newest records of each key, tombstones included, however many items they carry."},
	{name: "history within a batch", run: historyWithinBatch,
		promise: "Records superseded within their own batch are gone, but took their versions and positions."},
	{name: "a lower history", needs: needRemove, run: lowerHistory,
		promise: "Lowering a bounded history keeps the newest records that are held, whatever was removed before, and counts exactly."},
	{name: "max age", needs: needMaxAge, run: maxAge,
		promise: "Records older than MaxAge disappear from every read at once, and from the statistics later."},
	{name: "largest limits", needs: needMaxAge | needMaxBytes | needExpiry, run: largestLimits,
		promise: "The largest ages, sizes and times to live are no limit at all, of a new space and of one that is altered; negative ones are Invalid."},
	{name: "max bytes", needs: needMaxBytes, run: maxBytes,
		promise: "A space above MaxBytes loses its oldest records in the background, and no others."},
	{name: "tombstone age", needs: needClock, run: tombstoneAge,
		promise: "In a space with bounded history a tombstone goes after TombstoneAge; with a negative one, or all history, it stays."},
	{name: "history behind a removed record", needs: needRemove | needExpiry | needClock, run: historyBehindRemoved,
		promise: "Records older than one that was removed or has expired stay as long as the policy says, however long ago that was."},
}

func historyCountsRecords(e *env) {
	for _, n := range []int{1, 2, 5, 64} {
		s := fmt.Sprint("h", n)
		e.space(s, mainstem.Policy{History: n})
		var want []string
		v := 0
		for i := range 3*n + 4 {
			w := mainstem.Write{Count: uint32(i%4 + 1), Value: []byte("v")}
			text := "=v"
			if i%5 == 4 {
				w, text = mainstem.Write{Op: mainstem.OpDelete}, " deleted"
			}
			count := max(int(w.Count), 1)
			v += count
			e.apply(s, "k", w)
			if count > 1 {
				text = fmt.Sprintf("*%d%s", count, text)
			}
			want = append(want, fmt.Sprintf("%s/k@%d%s", s, v, text))
			want = want[max(0, len(want)-n):]
			e.same("the history", briefs(e.read(s, "k", mainstem.Versions{})), want...)
		}
		e.same("the feed", briefs(e.feed(mainstem.Filter{Spaces: []string{s}})), want...)
		if in := e.info(s); in.Records != int64(n) || in.Keys != 1 {
			e.Fatalf("a history of %d says %+v", n, in)
		}
	}
}

func historyWithinBatch(e *env) {
	e.space("two", mainstem.Policy{History: 2})
	r := e.apply("two", "k", mainstem.Write{Value: []byte("a")}, mainstem.Write{Value: []byte("b")}, mainstem.Write{Value: []byte("c")}, mainstem.Write{Value: []byte("d")})
	if r.Last-r.First < 3 || fmt.Sprint(r.Versions) != "[1 2 3 4]" {
		e.Fatalf("a batch of 4 records got %+v", r)
	}
	e.same("the records", briefs(e.read("two", "k", mainstem.Versions{})), "two/k@3=c", "two/k@4=d")
	e.same("the feed", briefs(e.feed(mainstem.Filter{})), "two/k@3=c", "two/k@4=d")
	if rec := e.get("two", "k"); rec.Position != r.Last {
		e.Fatalf("the newest record has position %d, the receipt ends at %d", rec.Position, r.Last)
	}
}

func lowerHistory(e *env) {
	for n, now := range map[int]string{1: "s1/k@3=c", 2: "s2/k@2=b s2/k@3=c"} {
		s := fmt.Sprint("s", n)
		e.space(s, mainstem.Policy{History: 4})
		large := string(make([]byte, 8<<10))
		for _, key := range []string{"gone", "k", "new", "large"} {
			for _, v := range []string{"a", "b", "c", "d"} {
				if key == "large" {
					v = large + v
				}
				e.put(s, key, v)
			}
		}
		for _, key := range []string{"gone", "k", "large"} {
			e.apply(s, key, mainstem.Write{Op: mainstem.OpRemove, Version: 4})
		}
		for v := range mainstem.Version(3) {
			e.apply(s, "gone", mainstem.Write{Op: mainstem.OpRemove, Version: v + 1})
		}
		if err := e.log.AlterSpace(e.ctx, s, mainstem.Policy{History: n}); err != nil {
			e.Fatalf("alter: %v", err)
		}
		e.counted(s, mainstem.Receipt{}, "gone", "k", "new", "large")
		kept := briefs(e.read(s, "k", mainstem.Versions{}))
		e.same("the records kept", kept[max(0, len(kept)-n):], strings.Fields(now)...)
		feed := e.feed(mainstem.Filter{Spaces: []string{s}, KeyPrefix: []byte("large")})
		if want := e.read(s, "large", mainstem.Versions{}); !slices.Equal(briefs(feed), briefs(want)) || len(feed) < n {
			e.Fatalf("the feed of large values has %d records, reading finds %d", len(feed), len(want))
		}
		e.absent(s, "k")
		for _, key := range []string{"gone", "k", "new", "large"} {
			if r := e.put(s, key, "e"); r.Versions[0] != 5 {
				e.Fatalf("the version of %s after removing 4 is %d, want 5", key, r.Versions[0])
			}
		}
		e.counted(s, mainstem.Receipt{}, "gone", "k", "new", "large")
		want := []string{s + "/k@5=e"}
		if n == 2 {
			want = []string{s + "/k@3=c", s + "/k@5=e"}
		}
		e.same("the records with less history", briefs(e.read(s, "k", mainstem.Versions{})), want...)
	}
}

func maxAge(e *env) {
	for _, p := range []mainstem.Policy{{}, {History: 1}, {History: 3}, {NoFeed: true}} {
		s := fmt.Sprintf("h%d-%v", p.History, p.NoFeed)
		p.MaxAge = 2 * shortly
		e.space(s, p)
		e.put(s, "old", "v")
		e.put(s, "both", "old")
		if e.f.Clock != nil { // in real time the moment would be missed
			e.holds(s, "old", "v")
		}
		e.pass(shortly + shortly/2)
		e.put(s, "both", "new")
		e.pass(shortly)
		e.absent(s, "old")
		if got := e.read(s, "old", mainstem.Versions{}); len(got) != 0 {
			e.Fatalf("a record above MaxAge is still read: %v", briefs(got))
		}
		e.commit(func(b *mainstem.Batch) { b.IfAbsent(s, []byte("old")) })
		if e.f.Clock == nil {
			continue
		}
		want := []string{s + "/both@2=new"}
		e.same("a scan", briefs(e.scan(s, mainstem.Range{})), want...)
		e.same("a read", briefs(e.read(s, "both", mainstem.Versions{})), want...)
		if !p.NoFeed {
			e.same("the feed", briefs(live(e.feed(mainstem.Filter{Spaces: []string{s}}))), want...)
		}
		e.eventually("space "+s, func() error {
			if in := e.info(s); in.Bytes > int64(len("both")+len("new")+len("old")) {
				return fmt.Errorf("it holds %d bytes in %d records", in.Bytes, in.Records)
			}
			return nil
		})
		e.holds(s, "both", "new")
		if v := e.put(s, "old", "again").Versions[0]; v < 2 {
			e.Fatalf("a key repeats version %d after its record was too old", v)
		}
	}
}

// largestLimits puts into every field of a policy what a sum with the time of a record
// overflows with.
func largestLimits(e *env) {
	for _, most := range []int64{math.MaxInt64, math.MaxInt64 - 1} {
		age := time.Duration(most)
		for _, history := range []int{0, 1, mainstem.MaxHistory} {
			for _, noFeed := range []bool{false, true} {
				first := mainstem.Policy{History: history, NoFeed: noFeed}
				p := mainstem.Policy{History: history, NoFeed: noFeed, MaxAge: age, MaxBytes: most, TombstoneAge: age}
				s := fmt.Sprintf("most-%d-%d-%v", most, history, noFeed)
				e.space(s+"-new", p)
				e.space(s+"-altered", first)
				for _, s := range []string{s + "-new", s + "-altered"} {
					e.apply(s, "long", mainstem.Write{Value: []byte("v"), TTL: age})
					e.put(s, "gone", "v")
					e.apply(s, "gone", mainstem.Write{Op: mainstem.OpDelete})
				}
				if err := e.log.AlterSpace(e.ctx, s+"-altered", p); err != nil {
					e.Fatalf("alter to %+v: %v", p, err)
				}
				for _, s := range []string{s + "-new", s + "-altered"} {
					e.put(s, "k", "v")
					e.sweep()
					e.holds(s, "k", "v")
					e.holds(s, "long", "v")
					e.same("a scan", briefs(e.scan(s, mainstem.Range{})), s+"/k@1=v", s+"/long@1=v")
					e.same("a read", briefs(e.read(s, "long", mainstem.Versions{})), s+"/long@1=v")
					if in := e.info(s); in.Keys != 3 {
						e.Fatalf("space %s holds %d keys, want 3: %+v", s, in.Keys, in)
					}
				}
			}
		}
	}
	e.space("least", mainstem.Policy{})
	for _, p := range []mainstem.Policy{
		{MaxAge: -1}, {MaxAge: math.MinInt64}, {MaxBytes: -1}, {MaxBytes: math.MinInt64},
		{History: -1}, {History: math.MinInt64}, {History: mainstem.MaxHistory + 1}, {History: math.MaxInt64},
	} {
		e.kind("create a space with a limit out of range", e.log.CreateSpace(e.ctx, "impossible", p), mainstem.KindInvalid)
		e.kind("alter a limit out of range", e.log.AlterSpace(e.ctx, "least", p), mainstem.KindInvalid)
	}
}

// live leaves out tombstones.
func live(records []mainstem.Record) []mainstem.Record {
	var out []mainstem.Record
	for _, r := range records {
		if r.Live() {
			out = append(out, r)
		}
	}
	return out
}

func maxBytes(e *env) {
	const records, size, limit = 200, 1000, 50_000
	for _, p := range []mainstem.Policy{{MaxBytes: limit}, {MaxBytes: limit, History: 2}} {
		s := fmt.Sprint("h", p.History)
		e.space(s, p)
		e.space(s+"-beside", mainstem.Policy{})
		for n := range records {
			e.commit(func(b *mainstem.Batch) {
				b.Put(s, fmt.Appendf(nil, "k%d", n%120), make([]byte, size))
				b.Put(s+"-beside", []byte("k"), make([]byte, size))
			})
		}
		e.eventually("space "+s, func() error {
			if in := e.info(s); in.Bytes > limit {
				return fmt.Errorf("it holds %d bytes: the limit is %d", in.Bytes, limit)
			}
			return nil
		})
		got := e.feed(mainstem.Filter{Spaces: []string{s}})
		if len(got) < limit/size/2 {
			e.Fatalf("only %d records of %d bytes are left below a limit of %d", len(got), size, limit)
		}
		newest := e.feed(mainstem.Filter{Spaces: []string{s}, After: got[0].Position - 1})
		if last := got[len(got)-1]; last.Position != e.info(s).Last || len(newest) != len(got) {
			e.Fatalf("the newest record, at %d, is gone: the feed ends at %d", e.info(s).Last, last.Position)
		}
		for i, r := range got { // no record newer than the oldest left may be missing
			if want := fmt.Sprintf("k%d", (records-len(got)+i)%120); string(r.Key) != want {
				e.Fatalf("record %d of those left is of key %s, want %s: not the oldest were removed", i, r.Key, want)
			}
		}
		e.counted(s, mainstem.Receipt{}, keysOf(120)...)
		if in := e.info(s + "-beside"); in.Records != records {
			e.Fatalf("a space beside it holds %d records, want %d", in.Records, records)
		}
	}
}

func keysOf(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("k%d", i)
	}
	return out
}

func tombstoneAge(e *env) {
	spaces := map[string]mainstem.Policy{
		"hour":    {History: 1, TombstoneAge: time.Hour},
		"default": {History: 2},
		"ever":    {History: 1, TombstoneAge: -1},
		"all":     {TombstoneAge: time.Hour},
	}
	for s, p := range spaces {
		e.space(s, p)
		e.put(s, "k", "v")
		e.apply(s, "k", mainstem.Write{Op: mainstem.OpDelete})
		e.put(s, "live", "v")
	}
	tombstones := func(s string) (n int) {
		for _, r := range e.feed(mainstem.Filter{Spaces: []string{s}}) {
			if !r.Live() {
				n++
			}
		}
		return n
	}
	age := func(d time.Duration, gone string) {
		e.pass(d)
		e.eventually("space "+gone, func() error {
			if n := tombstones(gone); n != 0 {
				return fmt.Errorf("%d tombstones are left", n)
			}
			return nil
		})
	}
	e.sweep()
	for s := range spaces {
		if tombstones(s) != 1 {
			e.Fatalf("in %s a young tombstone is gone", s)
		}
	}
	age(2*time.Hour, "hour")
	if tombstones("default") != 1 {
		e.Fatalf("by default a tombstone is gone after two hours")
	}
	age(mainstem.DefaultTombstoneAge, "default")
	for _, s := range []string{"ever", "all"} {
		if tombstones(s) != 1 {
			e.Fatalf("in %s, where it was to stay, a tombstone is gone", s)
		}
	}
	for s := range spaces {
		e.holds(s, "live", "v")
		if v := e.put(s, "k", "again").Versions[0]; v < 3 {
			e.Fatalf("in %s the key repeats version %d after its tombstone went", s, v)
		}
	}
}

func historyBehindRemoved(e *env) {
	spaces := map[string]mainstem.Policy{
		"hour":  {History: 3, TombstoneAge: time.Hour},
		"quiet": {History: 3, TombstoneAge: time.Hour, NoFeed: true},
		"ever":  {History: 3, TombstoneAge: -1},
		"all":   {},
	}
	later := func() {
		e.pass(2 * time.Hour)
		e.sweep()
		e.sweep()
	}
	for s, p := range spaces {
		e.space(s, p)
		e.apply(s, "removed", mainstem.Write{Value: []byte("a")}, mainstem.Write{Value: []byte("b")}, mainstem.Write{Value: []byte("c")})
		e.apply(s, "removed", mainstem.Write{Op: mainstem.OpRemove, Version: 3})
		e.apply(s, "expired", mainstem.Write{Value: []byte("a")}, mainstem.Write{Value: []byte("b"), TTL: time.Minute})
		e.apply(s, "deleted", mainstem.Write{Value: []byte("a")}, mainstem.Write{Op: mainstem.OpDelete}, mainstem.Write{Value: []byte("c")})
		e.apply(s, "deleted", mainstem.Write{Op: mainstem.OpRemove, Version: 3})
	}
	for range 3 {
		later()
	}
	for s, p := range spaces {
		e.same("the records behind a removed one", briefs(e.read(s, "removed", mainstem.Versions{})), s+"/removed@1=a", s+"/removed@2=b")
		e.absent(s, "removed")
		if p.NoFeed || p.History == 0 {
			e.same("the records behind an expired one", briefs(live(e.read(s, "expired", mainstem.Versions{}))), s+"/expired@1=a")
		}
		if behind := e.read(s, "deleted", mainstem.Versions{}); p.TombstoneAge > 0 && len(live(behind)) < len(behind) {
			e.Fatalf("an old tombstone behind a removed record is left: %v", briefs(behind))
		}
		e.absent(s, "expired")
		e.absent(s, "deleted")
		e.counted(s, mainstem.Receipt{}, "removed", "expired", "deleted")
		for v := range mainstem.Version(2) { // what is left of the key then goes
			e.apply(s, "removed", mainstem.Write{Op: mainstem.OpRemove, Version: v + 1})
		}
	}
	later()
	for s := range spaces {
		e.counted(s, mainstem.Receipt{}, "removed", "expired", "deleted")
		if v := e.put(s, "removed", "d").Versions[0]; v < 4 {
			e.Fatalf("in %s the key repeats version %d", s, v)
		}
	}
}
