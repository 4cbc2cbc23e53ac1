package enginetest

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
)

var manyCases = []testCase{
	{name: "get many", run: getMany,
		promise: "GetMany yields a record for each key, in the order of the keys, of version 0 where Get would say NotFound."},
	{name: "get many expired", needs: needExpiry | needClock, run: getManyExpired,
		promise: "GetMany does not show what has expired."},
	{name: "get many keys", run: getManyKeys,
		promise: "GetMany takes as many keys as the limits say, of any bytes, and yields any number of bytes."},
	{name: "get many refuses", run: getManyRefuses,
		promise: "GetMany of too many keys, too many bytes of keys or a malformed key is Invalid; no keys yield nothing."},
	{law: Atomic, name: "get many at one moment", run: getManyOneMoment,
		promise: "What is written while GetMany runs does not show up in it."},
	{law: Atomic, name: "get many sees whole batches", run: getManySeesWholeBatches,
		promise: "Keys always written together are never seen apart by GetMany."},
	{name: "get many in a snapshot", needs: needSnapshot, run: getManyInSnapshot,
		promise: "GetMany of a snapshot shows the log as it was."},
}

func manyKeys(keys ...string) [][]byte {
	out := make([][]byte, len(keys))
	for i, k := range keys {
		out[i] = []byte(k)
	}
	return out
}

func (e *env) many(r mainstem.Reader, space string, keys ...string) []string {
	e.Helper()
	return briefs(e.all(fmt.Sprintf("get many %s %.200q", space, keys), r.GetMany(e.ctx, space, manyKeys(keys...))))
}

// none is what GetMany yields for a key without a live value, as brief shows it.
func none(space, key string) string { return brief(mainstem.Record{Space: space, Key: []byte(key)}) }

func getMany(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		e.same("of a space without records", e.many(e.log, s, "b", "a"), none(s, "b"), none(s, "a"))
		for n := range 4 {
			e.put(s, "k", fmt.Sprint(n))
		}
		e.apply(s, "k\x00", mainstem.Write{Value: []byte{}, Headers: mainstem.Headers{{Name: "h"}}})
		e.apply(s, "counted", mainstem.Write{Count: 7})
		e.put(s, "deleted", "v")
		e.apply(s, "deleted", mainstem.Write{Op: mainstem.OpDelete})
		e.put(s, "purged", "v")
		e.apply(s, "purged", mainstem.Write{Op: mainstem.OpPurge})
		if e.f.Forget {
			e.put(s, "forgotten", "v")
			e.apply(s, "forgotten", mainstem.Write{Op: mainstem.OpForget})
		}
		if e.f.Remove {
			e.put(s, "removed", "v")
			e.put(s, "removed", "w")
			e.apply(s, "removed", mainstem.Write{Op: mainstem.OpRemove, Version: 2})
		}
		e.same("of all kinds of keys",
			e.many(e.log, s, "never", "k", "counted", "purged", "k\x00", "k", "removed", "forgotten", "deleted", "k\xff", "k"),
			none(s, "never"), s+"/k@4=3", s+"/counted@7*7=nil", none(s, "purged"), s+`/"k\x00"@1="" h:nil`, s+"/k@4=3", none(s, "removed"),
			none(s, "forgotten"), none(s, "deleted"), none(s, "k\xff"), s+"/k@4=3")
		e.same("of one key", e.many(e.log, s, "k"), s+"/k@4=3")
		for _, r := range e.all("get many", e.log.GetMany(e.ctx, s, manyKeys("counted", "k"))) {
			if want := e.get(s, string(r.Key)); full(r) != full(want) {
				e.Fatalf("it yields %s, but Get returns %s", full(r), full(want))
			}
		}
		n := 0
		for range e.log.GetMany(e.ctx, s, manyKeys("none", "k", "none", "k")) { // a loop may end anywhere
			if n++; n == 3 {
				break
			}
		}
	})
	_, err := collect(e.log.GetMany(e.ctx, "nowhere", manyKeys("k")))
	e.kind("get many of an unknown space", err, mainstem.KindNotFound)
}

func getManyExpired(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		e.apply(s, "short", mainstem.Write{Value: []byte("v"), TTL: time.Minute})
		e.apply(s, "long", mainstem.Write{Value: []byte("v"), TTL: 24 * time.Hour})
		e.same("before", e.many(e.log, s, "long", "short"), s+"/long@1=v", s+"/short@1=v")
		e.pass(time.Minute)
		e.same("afterwards", e.many(e.log, s, "long", "short"), s+"/long@1=v", none(s, "short"))
		e.sweep()
		e.same("after a sweep", e.many(e.log, s, "long", "short"), s+"/long@1=v", none(s, "short"))
	})
}

func getManyKeys(e *env) {
	for _, s := range []string{"all", "one"} {
		e.space(s, policies[s])
		var keys, want []string
		e.commit(func(b *mainstem.Batch) {
			for i, k := range awkward() {
				b.Put(s, k, fmt.Append(nil, i))
				keys = append(keys, string(k))
				want = append(want, fmt.Sprintf("%s/%s@1=%d", s, plain(k), i))
			}
		})
		e.same("of keys of all kinds", e.many(e.log, s, keys...), want...)
		slices.Reverse(keys)
		slices.Reverse(want)
		e.same("of keys of all kinds, backwards", e.many(e.log, s, keys...), want...)
		if s == "all" || !testing.Short() {
			e.countMany(s)
			e.largeMany(s)
		}
	}
}

// countMany gets as many keys as the limit says, every third of which is there.
func (e *env) countMany(s string) {
	e.Helper()
	keys := make([][]byte, mainstem.MaxGetKeys)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "n%d", i*7%mainstem.MaxGetKeys)
	}
	for i := 0; i < len(keys); {
		e.commit(func(b *mainstem.Batch) {
			for ; i < len(keys) && b.Len() < min(e.f.Limits.MaxBatchWrites, 500); i += 3 {
				b.Put(s, keys[i], keys[i])
			}
		})
	}
	n := 0
	for r, err := range e.log.GetMany(e.ctx, s, keys) {
		if err != nil {
			e.Fatalf("get many: %v", err)
		}
		if !bytes.Equal(r.Key, keys[n]) || (r.Version == 1) != (n%3 == 0) || r.Version == 1 && !bytes.Equal(r.Value, keys[n]) {
			e.Fatalf("record %d of many is %s; the key is %q", n, brief(r), keys[n])
		}
		if n++; n%1000 == 0 {
			e.progress.moved()
		}
	}
	if n != len(keys) {
		e.Fatalf("%d records for %d keys", n, len(keys))
	}
}

// largeMany gets the largest values there can be, many times.
func (e *env) largeMany(s string) {
	e.Helper()
	size := min(e.f.Limits.MaxValue, 1<<20)
	var keys, want []string
	for i := range 3 {
		key := "large" + strconv.Itoa(i)
		e.put(s, key, string(bytes.Repeat([]byte{byte(i + 1)}, size)))
		keys, want = append(keys, key, "none"), append(want, brief(e.get(s, key)), none(s, "none"))
	}
	for range 3 {
		keys, want = append(keys, keys...), append(want, want...)
	}
	e.same("of large values", e.many(e.log, s, keys...), want...)
}

func getManyRefuses(e *env) {
	e.seeded()
	k := []byte("live")
	long := make([][]byte, mainstem.MaxGetKeyBytes/mainstem.MaxKey+1)
	for i := range long {
		long[i] = bytes.Repeat([]byte("x"), mainstem.MaxKey)
	}
	for _, c := range []struct {
		what string
		keys [][]byte
	}{
		{"one key too many", slices.Repeat([][]byte{k}, mainstem.MaxGetKeys+1)},
		{"too many bytes of keys", long},
		{"an empty key", [][]byte{k, {}, k}},
		{"a nil key", [][]byte{nil}},
		{"a key that is too long", [][]byte{k, make([]byte, mainstem.MaxKey+1)}},
	} {
		for _, s := range []string{"s", "b"} {
			got, err := collect(e.log.GetMany(e.ctx, s, c.keys))
			e.kind("get many of "+c.what, err, mainstem.KindInvalid)
			if len(got) != 0 {
				e.Fatalf("get many of %s yields %d records before it is refused", c.what, len(got))
			}
		}
	}
	e.same("as many bytes as may be", briefs(e.all("get many", e.log.GetMany(e.ctx, "s", long[1:])))[:1], none("s", string(long[0])))
	e.same("no keys", e.many(e.log, "s"))
}

func getManyOneMoment(e *env) {
	e.inEvery(func(s string, _ mainstem.Policy) {
		var keys, want []string
		for n := range 300 {
			k := fmt.Sprintf("k%03d", n*7%300)
			keys = append(keys, k, "x"+k)
			want = append(want, fmt.Sprintf("%s/%s@1=old", s, k), none(s, "x"+k))
			e.put(s, k, "old")
		}
		var got []string
		for r, err := range e.log.GetMany(e.ctx, s, manyKeys(keys...)) {
			if err != nil {
				e.Fatalf("get many: %v", err)
			}
			if got = append(got, brief(r)); len(got)%50 == 1 { // of keys not reached yet
				e.commit(func(b *mainstem.Batch) {
					b.Put(s, []byte(keys[len(keys)-len(got)-1]), []byte("new"))
					b.Put(s, []byte(keys[len(keys)-len(got)]), []byte("new"))
				})
			}
		}
		e.same("get many while others write", got, want...)
	})
}

func getManySeesWholeBatches(e *env) {
	keys := manyKeys("d", "a", "c", "b")
	for _, s := range []string{"all", "one"} {
		e.space(s, policies[s])
		var over atomic.Bool
		e.parallel(3, func(i int) error {
			if i > 0 {
				for !over.Load() {
					got, err := collect(e.log.GetMany(e.ctx, s, keys))
					if err != nil {
						return err
					}
					for _, r := range got {
						if r.Version != got[0].Version {
							return fmt.Errorf("keys that are written together have the versions of two batches: %s and %s", brief(r), brief(got[0]))
						}
					}
				}
				return nil
			}
			defer over.Store(true)
			for n := range busy() {
				b := mainstem.NewBatch()
				for _, k := range keys {
					b.Put(s, k, fmt.Append(nil, n))
				}
				if _, err := e.attempt(b); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func getManyInSnapshot(e *env) {
	e.seeded()
	keys := []string{"twice", "gone", "new", "live"}
	before := map[string][]string{"s": e.many(e.log, "s", keys...), "b": e.many(e.log, "b", keys...)}
	snap := e.snapshot()
	defer snap.Close()
	for _, s := range []string{"s", "b"} {
		e.put(s, "twice", "3")
		e.put(s, "new", "1")
		e.put(s, "gone", "2")
		e.apply(s, "live", mainstem.Write{Op: mainstem.OpPurge})
		e.same("in the snapshot", e.many(snap, s, keys...), before[s]...)
	}
	_, err := collect(snap.GetMany(e.ctx, "nowhere", manyKeys("k")))
	e.kind("get many of an unknown space", err, mainstem.KindNotFound)
	_, err = collect(snap.GetMany(e.ctx, "s", [][]byte{{}}))
	e.kind("get many of an empty key", err, mainstem.KindInvalid)
	if err := snap.Close(); err != nil {
		e.Fatalf("close the snapshot: %v", err)
	}
	_, err = collect(snap.GetMany(e.ctx, "s", manyKeys("k")))
	e.kind("get many of a closed snapshot", err, mainstem.KindClosed)
}
