package enginetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/mainstemdev/mainstem"
)

var getCases = []testCase{
	{name: "get", run: getNewest,
		promise: "Get returns the newest record of a live key and NotFound for any other."},
}

var scanCases = []testCase{
	{name: "scan in key order", run: scanInOrder,
		promise: "A scan yields each live key once, in the order of the bytes of the keys, in both directions."},
	{name: "scan ranges", run: scanRanges,
		promise: "Prefix, Start, End, Reverse and Limit select exactly what they say, in every combination."},
	{name: "scan newest only", run: scanNewest,
		promise: "A scan yields the newest record of a key, tombstones only if asked, and with KeysOnly no values."},
	{name: "scan at one moment", run: scanOneMoment,
		promise: "What is written while a scan runs does not show up in it."},
}

func getNewest(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		e.absent(s, "k")
		for n := range 5 {
			e.put(s, "k", fmt.Sprint(n))
			e.put(s, "k2", "other")
			if r := e.get(s, "k"); brief(r) != fmt.Sprintf("%s/k@%d=%d", s, n+1, n) {
				e.Fatalf("get returned %s", brief(r))
			}
		}
	})
}

func scanInOrder(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		keys := awkward()
		for _, i := range []int{7, 3, 5} { // not in order, and some of them twice
			for j := range keys {
				e.commit(func(b *mainstem.Batch) { b.Put(s, keys[j*i%len(keys)], nil) })
			}
		}
		for _, k := range keys {
			e.commit(func(b *mainstem.Batch) { b.Put(s, k, k) })
		}
		slices.SortFunc(keys, bytes.Compare)
		for _, reverse := range []bool{false, true} {
			var got [][]byte
			for _, r := range e.scan(s, mainstem.Range{Reverse: reverse}) {
				got = append(got, r.Key)
				if !bytes.Equal(r.Key, r.Value) {
					e.Fatalf("the scan gives key %q the value %q", r.Key, r.Value)
				}
			}
			if reverse {
				slices.Reverse(got)
			}
			if !slices.EqualFunc(got, keys, bytes.Equal) {
				e.Fatalf("a scan of %s (reverse: %v) yields the keys %q, want %q", s, reverse, got, keys)
			}
		}
	})
}

func scanRanges(e *env) {
	bounds := []string{"", "\x00", "a", "a\x00", "a\x00\xff", "aa", "ab", "a\xff", "a\xff\xff", "b", "ba", "\xff", "\xff\xff", "\xff\xff\xff"}
	keys := bounds[1:]
	for _, s := range []string{"all", "one"} {
		e.space(s, policies[s])
		for _, k := range keys {
			e.put(s, k, k)
		}
	}
	for _, neighbour := range []string{"al", "all2", "on", "one0"} { // must never show up
		e.space(neighbour, mainstem.Policy{History: 1})
		e.put(neighbour, "a", "neighbour")
		e.put(neighbour, "\xff\xff\xff\xff", "neighbour")
	}
	n := 0
	for _, prefix := range bounds {
		for _, start := range bounds {
			for _, end := range bounds {
				r := mainstem.Range{Reverse: n%2 == 1, Limit: n % 4}
				if prefix != "" {
					r.Prefix = []byte(prefix)
				}
				if start != "" {
					r.Start = []byte(start)
				}
				if end != "" {
					r.End = []byte(end)
				}
				e.scanRange([]string{"all", "one"}[n/2%2], keys, r)
				n++
			}
		}
	}
}

func (e *env) scanRange(space string, keys []string, r mainstem.Range) {
	e.Helper()
	var want, got []string
	for _, k := range keys {
		if strings.HasPrefix(k, string(r.Prefix)) && k >= string(r.Start) && (r.End == nil || k < string(r.End)) {
			want = append(want, k)
		}
	}
	if r.Reverse {
		slices.Reverse(want)
	}
	if r.Limit > 0 && len(want) > r.Limit {
		want = want[:r.Limit]
	}
	for _, rec := range e.scan(space, r) {
		got = append(got, string(rec.Key))
	}
	if !slices.Equal(got, want) {
		e.Fatalf("scan of %s from %q to %q, prefix %q, reverse %v, limit %d: got %q, want %q", space, r.Start, r.End, r.Prefix, r.Reverse, r.Limit, got, want)
	}
}

func scanNewest(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		for range 3 {
			e.apply(s, "live", mainstem.Write{Value: []byte("v"), Headers: mainstem.Headers{{Name: "h"}}})
			e.put(s, "deleted", "v")
			e.put(s, "purged", "v")
			e.put(s, "revived", "v")
		}
		e.apply(s, "deleted", mainstem.Write{Op: mainstem.OpDelete})
		e.apply(s, "purged", mainstem.Write{Op: mainstem.OpPurge})
		e.apply(s, "revived", mainstem.Write{Op: mainstem.OpDelete}, mainstem.Write{Value: []byte("new")})
		e.same("a scan", briefs(e.scan(s, mainstem.Range{})), s+"/live@3=v h:nil", s+"/revived@5=new")
		e.same("a scan with a limit", briefs(e.scan(s, mainstem.Range{Limit: 1, Reverse: true})), s+"/revived@5=new")
		e.same("a scan that skips tombstones up to its limit", briefs(e.scan(s, mainstem.Range{Limit: 1})), s+"/live@3=v h:nil")
		e.same("a scan with tombstones", briefs(e.scan(s, mainstem.Range{Tombstones: true})),
			s+"/deleted@4 deleted", s+"/live@3=v h:nil", s+"/purged@4 purged", s+"/revived@5=new")
		e.same("a scan with tombstones, limited", briefs(e.scan(s, mainstem.Range{Tombstones: true, Limit: 1})), s+"/deleted@4 deleted")
		bare := e.scan(s, mainstem.Range{KeysOnly: true, Tombstones: true, Reverse: true})
		e.same("a scan of keys only", briefs(bare), s+"/revived@5=nil", s+"/purged@4 purged", s+"/live@3=nil", s+"/deleted@4 deleted")
		if r := bare[0]; r.Position != e.get(s, "revived").Position || r.Time.IsZero() {
			e.Fatalf("a scan of keys only yields %s, want everything but value and headers", full(r))
		}
	})
}

func scanOneMoment(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		var want []string
		for n := range 300 {
			k := fmt.Sprintf("k%03d", n)
			e.put(s, k, "old")
			want = append(want, fmt.Sprintf("%s/%s@1=old", s, k))
		}
		for _, reverse := range []bool{false, true} {
			var got []string
			for r, err := range e.log.Scan(e.ctx, s, mainstem.Range{Reverse: reverse, Prefix: []byte("k")}) {
				if err != nil {
					e.Fatalf("scan: %v", err)
				}
				got = append(got, brief(r))
				if n := len(got); n%50 == 1 {
					e.put(s, fmt.Sprintf("k%03d-%v", 300-n, reverse), "new") // between keys not reached yet
					e.put(s, fmt.Sprintf("k%03d+%v", n, reverse), "new")
				}
			}
			if reverse {
				slices.Reverse(got)
			}
			e.same("a scan while others write", got, want...)
			want = briefs(e.scan(s, mainstem.Range{Prefix: []byte("k")}))
			if len(want) != 312 && !reverse {
				e.Fatalf("after the scan %d keys are there, want 312", len(want))
			}
		}
	})
}
