package enginetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/mainstemdev/mainstem"
)

var readCases = []testCase{
	{name: "read versions", run: readVersions,
		promise: "Read yields exactly the records that overlap From to To, in order, newest first if asked, up to the limit."},
	{name: "read of nothing", run: readOfNothing,
		promise: "Reading a key without records yields nothing and is no error."},
	{name: "read a long stream", run: readLongStream,
		promise: "A stream of many records is read whole, from any version, in both directions."},
	{name: "largest limit", run: largestLimit,
		promise: "A limit of the largest number there is selects everything, in scans, reads and feeds."},
	{name: "read keys apart", run: readKeysApart,
		promise: "Reading one key never yields records of a key that begins with the same bytes."},
}

var feedCases = []testCase{
	{name: "feed filters", run: feedFilters,
		promise: "Spaces, KeyPrefix, After and Limit select exactly what they say, in every combination."},
	{name: "feed without superseded records", run: feedWithoutSuperseded,
		promise: "A feed yields only records that are still held, each at its old place."},
	{name: "feed leaves NoFeed out", run: feedLeavesNoFeedOut,
		promise: "Records of spaces with NoFeed are in no feed and in every other read."},
	{name: "feed pages", run: feedPages,
		promise: "Pages of any size, each after the last position of the one before, make up the whole feed."},
	{name: "feed of many spaces", run: feedOfManySpaces,
		promise: "A feed of any number of spaces is in the order of the log, whatever spaces lie between."},
	{name: "feed after the end", run: feedAfterEnd,
		promise: "A feed after the newest position, or far beyond, is empty and no error."},
}

func readVersions(e *env) {
	counts := []uint32{1, 1, 5, 1, 3, 1, 1, 10, 1}
	for _, s := range []string{"all", "quiet"} {
		e.space(s, policies[s])
		e.put(s, "j", "neighbour")
		e.put(s, "l", "neighbour")
		for n, c := range counts {
			e.apply(s, "k", mainstem.Write{Count: c, Value: fmt.Append(nil, n)})
		}
		records := e.read(s, "k", mainstem.Versions{})
		if len(records) != len(counts) {
			e.Fatalf("%d records were written, %d are read", len(counts), len(records))
		}
		last := records[len(records)-1].Version
		n := 0
		for from := range last + 3 {
			for to := range last + 3 {
				v := mainstem.Versions{From: from, To: to, Reverse: n%2 == 1, Limit: n % 5}
				e.readRange(s, records, v)
				n++
			}
		}
	}
}

func largestLimit(e *env) {
	e.space("s", policies["all"])
	for _, key := range []string{"a", "b", "k", "k"} {
		e.put("s", key, "v")
	}
	for _, reverse := range []bool{false, true} {
		r, v := mainstem.Range{Limit: math.MaxInt, Reverse: reverse}, mainstem.Versions{Limit: math.MaxInt, Reverse: reverse}
		if scanned, read := len(e.scan("s", r)), len(e.read("s", "k", v)); scanned != 3 || read != 2 {
			e.Fatalf("scan %+v: %d records, want 3; read %+v: %d records, want 2", r, scanned, v, read)
		}
	}
	if n := len(e.feed(mainstem.Filter{Limit: math.MaxInt})); n != 4 {
		e.Fatalf("the feed has %d records, want 4", n)
	}
}

func (e *env) readRange(space string, records []mainstem.Record, v mainstem.Versions) {
	e.Helper()
	var want []mainstem.Record
	for _, r := range records {
		if r.Version >= v.From && (v.To == 0 || r.First() <= v.To) {
			want = append(want, r)
		}
	}
	if v.Reverse {
		slices.Reverse(want)
	}
	if v.Limit > 0 && len(want) > v.Limit {
		want = want[:v.Limit]
	}
	e.same(fmt.Sprintf("read %s/k %+v", space, v), fulls(e.read(space, "k", v)), fulls(want)...)
}

func readOfNothing(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		e.put(s, "k", "v")
		for _, key := range []string{"j", "k\x00", "kk", "\xff"} {
			for _, v := range []mainstem.Versions{{}, {Reverse: true}, {From: 1, To: 1}, {Limit: 1}} {
				if got := e.read(s, key, v); len(got) != 0 {
					e.Fatalf("reading %q yields %v", key, briefs(got))
				}
			}
		}
		if got := e.read(s, "k", mainstem.Versions{From: 2}); len(got) != 0 {
			e.Fatalf("reading from a version to come yields %v", briefs(got))
		}
		if got := e.read(s, "k", mainstem.Versions{From: 1 << 63}); len(got) != 0 {
			e.Fatalf("reading from a version far away yields %v", briefs(got))
		}
	})
}

func readLongStream(e *env) {
	const batches, each = 20, 100
	e.space("all", mainstem.Policy{})
	for n := range batches {
		e.commit(func(b *mainstem.Batch) {
			for i := range each {
				b.Put("all", []byte("k"), fmt.Append(nil, n*each+i))
				if i%10 == 0 {
					b.Put("all", []byte("other"), nil)
				}
			}
		})
	}
	records := e.read("all", "k", mainstem.Versions{})
	for i, r := range records {
		if r.Version != mainstem.Version(i+1) || string(r.Value) != fmt.Sprint(i) {
			e.Fatalf("record %d of the stream is %s", i, brief(r))
		}
	}
	if len(records) != batches*each {
		e.Fatalf("the stream has %d records, want %d", len(records), batches*each)
	}
	for _, v := range []mainstem.Versions{{Reverse: true}, {From: 777}, {To: 1234, Reverse: true}, {From: 500, To: 1500, Limit: 600}, {Limit: 1, Reverse: true}, {From: 1999, Reverse: true}} {
		e.readRange("all", records, v)
	}
}

func readKeysApart(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		keys := awkward()
		for range 2 {
			for _, k := range keys {
				e.commit(func(b *mainstem.Batch) { b.Put(s, k, k) })
			}
		}
		for _, k := range keys {
			for _, r := range e.read(s, string(k), mainstem.Versions{}) {
				if string(r.Key) != string(k) || string(r.Value) != string(k) || r.Version > 2 {
					e.Fatalf("reading %q in %s yields %s", k, s, brief(r))
				}
			}
		}
	})
}

func feedFilters(e *env) {
	spaces := []string{"a", "a2", "a/b", "b"}
	prefixes := []string{"", "k", "k\x00", "k\xff", "kk", "\xff", "x"}
	for i, s := range spaces {
		e.space(s, mainstem.Policy{History: i % 2})
	}
	for n := range 60 {
		e.commit(func(b *mainstem.Batch) {
			for i := range n%3 + 1 {
				b.Put(spaces[(n+i)%len(spaces)], []byte(prefixes[(n*5+i)%(len(prefixes)-1)+1]), fmt.Append(nil, n))
			}
		})
	}
	whole := e.feed(mainstem.Filter{})
	ascending(e, whole)
	n := 0
	for _, in := range [][]string{nil, {"a"}, {"a2", "a"}, {"b", "a/b", "nowhere"}, {"nowhere"}, {"a", "a"}, {"a2", "a", "b", "a/b"}} {
		for _, prefix := range prefixes {
			for _, after := range []mainstem.Position{0, 1, whole[0].Position, whole[len(whole)/2].Position, whole[len(whole)-1].Position - 1} {
				f := mainstem.Filter{Spaces: in, After: after, Limit: n % 4 * 3}
				if prefix != "" {
					f.KeyPrefix = []byte(prefix)
				}
				n++
				e.same(fmt.Sprintf("feed %+v", f), fulls(e.feed(f)), fulls(filtered(whole, f))...)
			}
		}
	}
}

// filtered returns what f selects from a whole feed.
func filtered(whole []mainstem.Record, f mainstem.Filter) []mainstem.Record {
	var out []mainstem.Record
	for _, r := range whole {
		if (f.Spaces == nil || slices.Contains(f.Spaces, r.Space)) && len(r.Key) >= len(f.KeyPrefix) &&
			string(r.Key[:len(f.KeyPrefix)]) == string(f.KeyPrefix) && r.Position > f.After && (f.Limit == 0 || len(out) < f.Limit) {
			out = append(out, r)
		}
	}
	return out
}

func feedWithoutSuperseded(e *env) {
	e.space("one", mainstem.Policy{History: 1})
	e.space("two", mainstem.Policy{History: 2})
	e.space("all", mainstem.Policy{})
	for n := range 4 {
		for _, s := range []string{"one", "two", "all"} {
			e.put(s, "k", fmt.Sprint(n))
			e.put(s, fmt.Sprint(n), "v")
		}
	}
	e.apply("one", "0", mainstem.Write{Op: mainstem.OpDelete})
	e.same("the feed", briefs(e.feed(mainstem.Filter{Spaces: []string{"one"}})), "one/1@1=v", "one/2@1=v", "one/k@4=3", "one/3@1=v", "one/0@2 deleted")
	e.same("the feed", briefs(e.feed(mainstem.Filter{Spaces: []string{"two"}})), "two/0@1=v", "two/1@1=v", "two/k@3=2", "two/2@1=v", "two/k@4=3", "two/3@1=v")
	if got := e.feed(mainstem.Filter{Spaces: []string{"all"}}); len(got) != 8 {
		e.Fatalf("the feed of a space that keeps all history has %v", briefs(got))
	}
	ascending(e, e.feed(mainstem.Filter{}))
}

func feedLeavesNoFeedOut(e *env) {
	e.space("quiet", mainstem.Policy{NoFeed: true})
	e.space("quiet1", mainstem.Policy{NoFeed: true, History: 1})
	e.space("all", mainstem.Policy{})
	for range 3 {
		for _, s := range []string{"quiet", "all", "quiet1"} {
			e.put(s, "k", "v")
		}
	}
	e.same("the whole feed", briefs(e.feed(mainstem.Filter{})), "all/k@1=v", "all/k@2=v", "all/k@3=v")
	e.same("the feed of a NoFeed space", briefs(e.feed(mainstem.Filter{Spaces: []string{"quiet", "quiet1"}})))
	e.same("a read", briefs(e.read("quiet", "k", mainstem.Versions{})), "quiet/k@1=v", "quiet/k@2=v", "quiet/k@3=v")
	e.holds("quiet1", "k", "v")
	if r := e.get("quiet1", "k"); r.Position != e.head() || e.info("quiet1").Last != r.Position {
		e.Fatalf("the newest record of the log, in a NoFeed space, has position %d; the head is %d", r.Position, e.head())
	}
}

func feedPages(e *env) {
	e.seeded()
	for n := range 100 {
		e.commit(func(b *mainstem.Batch) {
			for i := range n % 4 {
				b.Put([]string{"s", "b"}[i%2], fmt.Append(nil, n, i), nil)
			}
		})
	}
	whole := e.feed(mainstem.Filter{})
	for _, size := range []int{1, 2, 3, 7, 64, len(whole), len(whole) + 1} {
		var got []mainstem.Record
		f := mainstem.Filter{Limit: size}
		for {
			page := e.feed(f)
			if len(page) > size {
				e.Fatalf("a page of at most %d records has %d", size, len(page))
			}
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			f.After = page[len(page)-1].Position
		}
		e.same(fmt.Sprintf("the feed in pages of %d", size), fulls(got), fulls(whole)...)
	}
}

func feedOfManySpaces(e *env) {
	const spaces, batches = 60, 150
	name := func(i int) string { return fmt.Sprintf("many/%d", i%spaces) }
	var odd []string
	for i := range spaces {
		e.space(name(i), mainstem.Policy{History: i % 3 * 4})
		if i%2 == 1 {
			odd = append(odd, name(i))
		}
	}
	var want, wantOdd []string
	for n := range batches {
		e.commit(func(b *mainstem.Batch) {
			for i := range n%5 + 1 {
				s, key := n*7+i*11, fmt.Sprintf("%d.%d", n, i)
				b.Put(name(s), []byte(key), nil)
				text := fmt.Sprintf("%s/%s@1=nil", name(s), key)
				want = append(want, text)
				if s%2 == 1 {
					wantOdd = append(wantOdd, text)
				}
			}
		})
	}
	all := e.feed(mainstem.Filter{})
	ascending(e, all)
	e.same("the feed of all", briefs(all), want...)
	e.same("the feed of half of the spaces", briefs(e.feed(mainstem.Filter{Spaces: odd})), wantOdd...)
	f := mainstem.Filter{Spaces: odd, After: all[len(all)/2].Position}
	e.same("its second half", fulls(e.feed(f)), fulls(filtered(all, f))...)
}

func feedAfterEnd(e *env) {
	if got := e.feed(mainstem.Filter{}); len(got) != 0 {
		e.Fatalf("the feed of an empty log has %v", briefs(got))
	}
	e.space("s", mainstem.Policy{})
	p := e.put("s", "k", "v").Last
	for _, after := range []mainstem.Position{p, p + 1, 1 << 40, 1<<64 - 1} {
		for _, in := range [][]string{nil, {"s"}} {
			if got := e.feed(mainstem.Filter{After: after, Spaces: in}); len(got) != 0 {
				e.Fatalf("the feed after %d has %v", after, briefs(got))
			}
		}
	}
}
