package enginetest

import (
	"fmt"
	"strings"

	"github.com/mainstemdev/mainstem"
)

var opCases = []testCase{
	{name: "put", run: opPut,
		promise: "Put writes a record whose version is that of the key plus its count."},
	{name: "delete", run: opDelete,
		promise: "Delete writes a tombstone if the key is live and does nothing otherwise."},
	{name: "purge", run: opPurge,
		promise: "Purge writes a tombstone if the key is live and removes all older records of the key."},
	{name: "forget", needs: needForget, run: opForget,
		promise: "Forget removes every record of the key without a trace; its versions still never repeat."},
	{name: "truncate", needs: needTruncate, run: opTruncate,
		promise: "Truncate removes the records all of whose items are below a version and does not change the next version."},
	{name: "truncate from the future", needs: needTruncate, run: truncateFromFuture,
		promise: "Truncate before a version above the next one is Invalid and names both; on a key without records it does nothing."},
	{name: "rewrite", needs: needRewrite, run: opRewrite,
		promise: "Rewrite replaces value and headers of one record and nothing else."},
	{name: "remove", needs: needRemove, run: opRemove,
		promise: "Remove takes away exactly the record that ends at a version; an older one never becomes the value."},
	{name: "edit of what is not there", needs: needRewrite | needRemove, run: editOfNothing,
		promise: "Rewrite or remove of a version at which no record ends is NotFound."},
	{name: "writes apply in order", run: writesInOrder,
		promise: "The writes of a batch apply in the order in which they were added."},
	{name: "versions never repeat", run: versionsNeverRepeat,
		promise: "Versions of a key never repeat, whatever happened to its records."},
}

// policies are the kinds of space in which every operation must work.
var policies = map[string]mainstem.Policy{
	"all": {}, "one": {History: 1}, "three": {History: 3}, "quiet": {NoFeed: true}, "quiet1": {History: 1, NoFeed: true},
}

// inEvery runs f on a new space of each kind.
func (e *env) inEvery(f func(space string, p mainstem.Policy)) {
	e.Helper()
	for name, p := range policies {
		e.space(name, p)
		f(name, p)
	}
}

// kept returns the newest of want that a space with policy p keeps.
func kept(p mainstem.Policy, want ...string) []string {
	if p.History > 0 && len(want) > p.History {
		return want[len(want)-p.History:]
	}
	return want
}

// history fails unless the records of key and, in a space with feed, its
// records in the feed are those of want that are kept; want leaves out the name
// of the space.
func (e *env) history(space, key string, want ...string) {
	e.Helper()
	for i := range want {
		want[i] = space + "/" + want[i]
	}
	want = kept(policies[space], want...)
	e.same("the records of "+space+"/"+key, briefs(e.read(space, key, mainstem.Versions{})), want...)
	if policies[space].NoFeed {
		want = nil
	}
	e.same("the feed of "+space+"/"+key, briefs(e.feed(mainstem.Filter{Spaces: []string{space}, KeyPrefix: []byte(key)})), want...)
}

func opPut(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		r := e.apply(s, "k", mainstem.Write{Value: []byte("a")}, mainstem.Write{Value: []byte("b"), Count: 10}, mainstem.Write{Value: []byte("c"), Count: 1})
		if fmt.Sprint(r.Versions) != "[1 11 12]" {
			e.Fatalf("writes of 1, 10 and 1 items got versions %v, want [1 11 12]", r.Versions)
		}
		e.holds(s, "k", "c")
		e.history(s, "k", "k@1=a", "k@11*10=b", "k@12=c")
		big := e.apply(s, "big", mainstem.Write{Count: 1<<32 - 1}, mainstem.Write{Count: 1<<32 - 1}, mainstem.Write{})
		if big.Versions[2] != 2*(1<<32-1)+1 {
			e.Fatalf("counts up to the largest got versions %v", big.Versions)
		}
	})
}

func opDelete(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		head := e.head()
		if r := e.apply(s, "k", mainstem.Write{Op: mainstem.OpDelete}); r.First != 0 || r.Last != 0 || r.Versions[0] != 0 || e.head() != head {
			e.Fatalf("deleting an absent key made %+v", r)
		}
		e.put(s, "k", "a")
		if r := e.apply(s, "k", mainstem.Write{Op: mainstem.OpDelete}); r.Versions[0] != 2 || r.First == 0 {
			e.Fatalf("deleting version 1 made %+v, want version 2", r)
		}
		e.absent(s, "k")
		if r := e.apply(s, "k", mainstem.Write{Op: mainstem.OpDelete}); r.First != 0 || r.Versions[0] != 0 {
			e.Fatalf("deleting a deleted key made %+v", r)
		}
		e.history(s, "k", "k@1=a", "k@2 deleted")
		e.put(s, "k", "b")
		e.holds(s, "k", "b")
		e.history(s, "k", "k@1=a", "k@2 deleted", "k@3=b")
	})
}

func opPurge(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		purge := mainstem.Write{Op: mainstem.OpPurge, Headers: mainstem.Headers{{Name: "h", Value: []byte("v")}}}
		if r := e.apply(s, "k", purge); r.First != 0 || r.Versions[0] != 0 {
			e.Fatalf("purging an absent key made %+v", r)
		}
		for range 4 {
			e.put(s, "k", "v")
		}
		e.put(s, "kk", "other")
		if r := e.apply(s, "k", purge); r.Versions[0] != 5 {
			e.Fatalf("purging version 4 made %+v, want version 5", r)
		}
		e.absent(s, "k")
		e.same("the records left", briefs(e.read(s, "k", mainstem.Versions{})), s+"/k@5 purged h:v")
		if r := e.apply(s, "k", purge); r.First != 0 || r.Versions[0] != 0 {
			e.Fatalf("purging a purged key made %+v", r)
		}
		e.holds(s, "kk", "other")
		e.put(s, "k", "new")
		e.same("the records left", briefs(e.read(s, "k", mainstem.Versions{})), kept(policies[s], s+"/k@5 purged h:v", s+"/k@6=new")...)
		e.put(s, "d", "v")
		e.apply(s, "d", mainstem.Write{Op: mainstem.OpDelete})
		if r := e.apply(s, "d", purge); r.First != 0 || r.Versions[0] != 0 {
			e.Fatalf("purging a deleted key made %+v: it does nothing unless the key is live", r)
		}
		e.history(s, "d", "d@1=v", "d@2 deleted")
	})
}

func opForget(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		forget := mainstem.Write{Op: mainstem.OpForget}
		e.put(s, "other", "v")
		for _, prepare := range [][]mainstem.Write{nil, {{}}, {{}, {}, {Count: 5}}, {{}, {Op: mainstem.OpDelete}}} {
			if len(prepare) > 0 {
				e.apply(s, "k", prepare...)
			}
			head, info := e.head(), e.info(s)
			if r := e.apply(s, "k", forget); r.First != 0 || r.Last != 0 || r.Versions[0] != 0 || e.head() != head {
				e.Fatalf("forgetting made %+v and moved the head from %d to %d", r, head, e.head())
			}
			e.absent(s, "k")
			e.history(s, "k")
			if got := e.scan(s, mainstem.Range{Tombstones: true}); len(got) != 1 || string(got[0].Key) != "other" {
				e.Fatalf("after forgetting a scan has %v", briefs(got))
			}
			if in := e.info(s); in.Keys != 1 || in.Records != 1 {
				e.Fatalf("after forgetting the space says %+v (before %+v)", in, info)
			}
		}
		var last mainstem.Version
		for range 3 {
			v := e.put(s, "again", "v").Versions[0]
			if v <= last {
				e.Fatalf("a forgotten key repeats version %d after %d", v, last)
			}
			last = v
			e.apply(s, "again", forget)
		}
	})
}

func opTruncate(e *env) {
	truncate := func(v mainstem.Version) mainstem.Write { return mainstem.Write{Op: mainstem.OpTruncate, Version: v} }
	e.inEvery(func(s string, _ mainstem.Policy) {
		five := []mainstem.Write{{Value: []byte("a")}, {Count: 3, Value: []byte("b")}, {Value: []byte("c")}}
		e.apply(s, "k", five...)
		e.apply(s, "kk", five...)
		want := []string{"k@1=a", "k@4*3=b", "k@5=c"}
		for _, step := range []struct {
			before mainstem.Version
			gone   int // records of want that are gone afterwards
		}{{1, 0}, {2, 1}, {3, 1}, {4, 1}, {5, 2}, {2, 2}} {
			head := e.head()
			if r := e.apply(s, "k", truncate(step.before)); r.First != 0 || r.Versions[0] != 0 || e.head() != head {
				e.Fatalf("truncating before %d made %+v", step.before, r)
			}
			left := want[step.gone:]
			if n := policies[s].History; n > 0 && len(left) > n {
				left = left[len(left)-n:]
			}
			var full []string
			for _, l := range left {
				full = append(full, s+"/"+l)
			}
			e.same(fmt.Sprintf("the records after truncating before %d", step.before), briefs(e.read(s, "k", mainstem.Versions{})), full...)
		}
		e.holds(s, "k", "c")
		e.apply(s, "k", truncate(6)) // all of them
		e.absent(s, "k")
		e.same("the records after truncating all", briefs(e.read(s, "k", mainstem.Versions{})))
		if got := e.scan(s, mainstem.Range{Tombstones: true}); len(got) != 1 || string(got[0].Key) != "kk" {
			e.Fatalf("after truncating all a scan has %v", briefs(got))
		}
		if r := e.put(s, "k", "new"); r.Versions[0] != 6 {
			e.Fatalf("the version after truncating all is %d, want 6", r.Versions[0])
		}
		e.same("the records of the other key", briefs(e.read(s, "kk", mainstem.Versions{})),
			kept(policies[s], s+"/kk@1=a", s+"/kk@4*3=b", s+"/kk@5=c")...)
	})
}

func truncateFromFuture(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		e.apply(s, "k", mainstem.Write{}, mainstem.Write{})
		err := e.refused(mainstem.KindInvalid, func(b *mainstem.Batch) { b.Truncate(s, []byte("k"), 404) })
		if text := err.Error(); !strings.Contains(text, "404") || !strings.Contains(text, "2") {
			e.Fatalf("the error %q does not name both versions, 404 and 2", text)
		}
		e.refused(mainstem.KindInvalid, func(b *mainstem.Batch) { b.Truncate(s, []byte("k"), 4) })
		e.commit(func(b *mainstem.Batch) { b.Put(s, []byte("k"), nil); b.Truncate(s, []byte("k"), 4) }) // 3 is of the same batch
		e.same("the records", briefs(e.read(s, "k", mainstem.Versions{})))
		e.apply(s, "never", mainstem.Write{Op: mainstem.OpTruncate, Version: 1000})
		if r := e.put(s, "never", "v"); r.Versions[0] != 1 {
			e.Fatalf("truncating a key without records made its first version %d", r.Versions[0])
		}
	})
}

func opRewrite(e *env) {
	e.inEvery(func(s string, p mainstem.Policy) {
		e.apply(s, "k", mainstem.Write{Value: []byte("a")}, mainstem.Write{Value: []byte("b"), Count: 4, Headers: mainstem.Headers{{Name: "h", Value: []byte("old")}}}, mainstem.Write{Value: []byte("c")})
		before := e.read(s, "k", mainstem.Versions{})
		feed := len(e.feed(mainstem.Filter{Spaces: []string{s}}))
		head := e.head()
		for i, want := range before {
			for _, v := range [][]byte{[]byte("much longer than it was before"), nil, {}, []byte("x")} {
				h := mainstem.Headers{{Name: "h", Value: []byte("new")}, {Name: "h", Value: nil}}
				r := e.commit(func(b *mainstem.Batch) { b.Rewrite(s, []byte("k"), want.Version, v, h) })
				if r.First != 0 || r.Versions[0] != 0 || e.head() != head {
					e.Fatalf("a rewrite made %+v and moved the head to %d", r, e.head())
				}
				want.Value, want.Headers = v, h
				before[i] = want
				e.same("the records after a rewrite", fulls(e.read(s, "k", mainstem.Versions{})), fulls(before)...)
				if !p.NoFeed {
					e.same("the feed after a rewrite", fulls(e.feed(mainstem.Filter{Spaces: []string{s}})), fulls(before)...)
				}
			}
		}
		e.same("the newest record", []string{full(e.get(s, "k"))}, full(before[len(before)-1]))
		if got := len(e.feed(mainstem.Filter{Spaces: []string{s}})); got != feed {
			e.Fatalf("rewrites changed the number of records in the feed from %d to %d", feed, got)
		}
		if in := e.info(s); in.Records != int64(len(before)) || in.Bytes != bytesOf(before) {
			e.Fatalf("after rewrites the space says %+v, want %d records of %d bytes", in, len(before), bytesOf(before))
		}
	})
}

func opRemove(e *env) {
	remove := func(v mainstem.Version) mainstem.Write { return mainstem.Write{Op: mainstem.OpRemove, Version: v} }
	for _, s := range []string{"all", "three", "quiet"} {
		e.space(s, policies[s])
		e.apply(s, "k", mainstem.Write{Value: []byte("a")}, mainstem.Write{Value: []byte("b"), Count: 2}, mainstem.Write{Value: []byte("c")})
		head := e.head()
		if r := e.apply(s, "k", remove(3)); r.First != 0 || r.Versions[0] != 0 || e.head() != head {
			e.Fatalf("a removal made %+v", r)
		}
		e.history(s, "k", "k@1=a", "k@4=c")
		e.holds(s, "k", "c")
		e.apply(s, "k", remove(4))
		e.history(s, "k", "k@1=a")
		e.absent(s, "k") // the older value does not come back
		if got := e.scan(s, mainstem.Range{Tombstones: true}); len(got) != 0 {
			e.Fatalf("after removing the newest record a scan has %v", briefs(got))
		}
		e.conditions([]condition{{state: s + "/k", test: mainstem.TestAbsent, holds: true}, {state: s + "/k", test: mainstem.TestVersion, v: 4, holds: true}})
		if r := e.put(s, "k", "d"); r.Versions[0] != 5 {
			e.Fatalf("the version after removing 4 is %d, want 5", r.Versions[0])
		}
		e.history(s, "k", "k@1=a", "k@5=d")
	}
}

func editOfNothing(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		e.apply(s, "k", mainstem.Write{}, mainstem.Write{Count: 3})
		for _, op := range []mainstem.Op{mainstem.OpRewrite, mainstem.OpRemove} {
			for key, versions := range map[string][]mainstem.Version{"k": {2, 3, 5, 99}, "never": {1}, "k2": {4}} {
				for _, v := range versions {
					e.refused(mainstem.KindNotFound, func(b *mainstem.Batch) {
						b.Put(s, []byte("innocent"), nil)
						b.Add(mainstem.Write{Op: op, Space: s, Key: []byte(key), Version: v})
					})
				}
			}
		}
		e.apply(s, "k", mainstem.Write{Op: mainstem.OpRemove, Version: 4})
		e.refused(mainstem.KindNotFound, func(b *mainstem.Batch) { b.Rewrite(s, []byte("k"), 4, nil, nil) })
	})
}

func writesInOrder(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		r := e.apply(s, "k",
			mainstem.Write{Op: mainstem.OpDelete}, // nothing to delete yet
			mainstem.Write{Value: []byte("a")},
			mainstem.Write{Op: mainstem.OpDelete},
			mainstem.Write{Op: mainstem.OpDelete}, // deleted already
			mainstem.Write{Op: mainstem.OpPurge},
			mainstem.Write{Value: []byte("b")},
			mainstem.Write{Value: []byte("c")})
		if got := fmt.Sprint(r.Versions); got != "[0 1 2 0 0 3 4]" {
			e.Fatalf("the versions of a batch on one key are %s, want [0 1 2 0 0 3 4]", got)
		}
		e.holds(s, "k", "c")
		e.history(s, "k", "k@1=a", "k@2 deleted", "k@3=b", "k@4=c")
		r = e.apply(s, "p", mainstem.Write{}, mainstem.Write{}, mainstem.Write{Op: mainstem.OpPurge}, mainstem.Write{Value: []byte("x")}, mainstem.Write{Op: mainstem.OpDelete})
		if got := fmt.Sprint(r.Versions); got != "[1 2 3 4 5]" {
			e.Fatalf("the versions of a batch with a purge are %s, want [1 2 3 4 5]", got)
		}
		e.history(s, "p", "p@3 purged", "p@4=x", "p@5 deleted")
	})
	if !e.f.Rewrite || !e.f.Truncate {
		return
	}
	e.space("edits", mainstem.Policy{})
	e.apply("edits", "k", mainstem.Write{Value: []byte("a")}, mainstem.Write{Value: []byte("b")},
		mainstem.Write{Op: mainstem.OpRewrite, Version: 1, Value: []byte("A")},
		mainstem.Write{Op: mainstem.OpRewrite, Version: 2, Value: []byte("x")},
		mainstem.Write{Op: mainstem.OpRewrite, Version: 2, Value: []byte("B")},
		mainstem.Write{Op: mainstem.OpTruncate, Version: 2}, mainstem.Write{Value: []byte("c")})
	e.same("the records after edits in the batch that wrote them", briefs(e.read("edits", "k", mainstem.Versions{})), "edits/k@2=B", "edits/k@3=c")
}

func versionsNeverRepeat(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		var last mainstem.Version
		for n := range 12 {
			v := e.apply(s, "k", mainstem.Write{Count: uint32(n % 3)}).Versions[0]
			if v <= last {
				e.Fatalf("in %s version %d follows %d", s, v, last)
			}
			last = v
			switch n % 4 {
			case 0:
				last = e.apply(s, "k", mainstem.Write{Op: mainstem.OpDelete}).Versions[0]
			case 1:
				last = e.apply(s, "k", mainstem.Write{Op: mainstem.OpPurge}).Versions[0]
			case 2:
				if e.f.Forget {
					e.apply(s, "k", mainstem.Write{Op: mainstem.OpForget})
				}
			}
			if last < v {
				e.Fatalf("in %s a tombstone has version %d after %d", s, last, v)
			}
		}
	})
}

// bytesOf counts what SpaceInfo.Bytes counts.
func bytesOf(records []mainstem.Record) (n int64) {
	for _, r := range records {
		w := mainstem.Write{Key: r.Key, Value: r.Value, Headers: r.Headers}
		n += int64(w.Size())
	}
	return n
}
